package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// client is that of the server in this process. It speaks the protocol as every
// other client does: what the server promises holds here too.
type client struct {
	in io.WriteCloser

	writing sync.Mutex

	mu   sync.Mutex
	last int
	// waiting are the requests under way; nil once the server is over.
	waiting map[int]chan reply
}

// reply is what came of a request.
type reply struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *serve.Error    `json:"error"`
}

// newClient writes requests to in and reads what comes from out, until that
// ends.
func newClient(in io.WriteCloser, out io.Reader) *client {
	c := &client{in: in, waiting: map[int]chan reply{}}
	go c.read(out)
	return c
}

func (c *client) read(out io.Reader) {
	d := json.NewDecoder(out)
	for {
		var r reply
		if err := d.Decode(&r); err != nil {
			break
		}
		if r.ID == nil {
			continue // a notification: whoever asks gets an answer
		}
		c.mu.Lock()
		to := c.waiting[*r.ID]
		delete(c.waiting, *r.ID)
		c.mu.Unlock()
		if to != nil {
			to <- r
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, to := range c.waiting {
		to <- reply{Error: errOver()}
	}
	c.waiting = nil
}

// errOver is the answer to what came too late.
func errOver() *serve.Error {
	return &serve.Error{Code: serve.CodeShutdown, Message: "cannot take the request: the server is ending", Data: serve.ErrorData{Kind: serve.KindShutdown, Hints: []string{}}}
}

// call sends a request and waits for its answer. When ctx is done it cancels
// the request, which then is answered soon: with the present state, or with
// what came of the abort. The error is a *serve.Error.
func (c *client) call(ctx context.Context, method string, params, result any) error {
	return c.send(ctx, method, params).into(result)
}

// request is one under way.
type request struct {
	got  chan reply
	stop func() bool
}

// errTooLong is the answer to what the server would not read.
func errTooLong() *serve.Error {
	return &serve.Error{Code: serve.CodeRequest, Message: "cannot take the request: as a line it is longer than 16 MiB", Data: serve.ErrorData{Kind: serve.KindTooLong, Hints: []string{}}}
}

// send sends a request; it was sent when this returns.
func (c *client) send(ctx context.Context, method string, params any) request {
	r := request{make(chan reply, 1), func() bool { return true }}
	c.mu.Lock()
	c.last++
	id := c.last
	over := c.waiting == nil
	if !over {
		c.waiting[id] = r.got
	}
	c.mu.Unlock()
	failed := errOver()
	if !over {
		failed = c.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	}
	if failed != nil {
		c.mu.Lock()
		if over || c.waiting[id] != nil { // else it was answered by read
			delete(c.waiting, id)
			r.got <- reply{Error: failed}
		}
		c.mu.Unlock()
		return r
	}
	r.stop = context.AfterFunc(ctx, func() {
		_ = c.write(map[string]any{"jsonrpc": "2.0", "method": serve.MethodCancel, "params": map[string]int{"id": id}})
	})
	return r
}

// into waits for the answer.
func (r request) into(result any) error {
	defer r.stop()
	got := <-r.got
	if got.Error != nil {
		return got.Error
	}
	return json.Unmarshal(got.Result, result)
}

// write sends a line; nil is that it was sent. The server does not say whose line
// was too long for it: that is found here.
func (c *client) write(message any) *serve.Error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false) // six bytes for each < and & of a command
	if e.Encode(message) != nil {
		return errOver()
	}
	if line.Len() > rpc.MaxLine {
		return errTooLong()
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := c.in.Write(line.Bytes()); err != nil {
		return errOver()
	}
	return nil
}
