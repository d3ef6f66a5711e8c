package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unitward/unitward/unit/serve/rpc"
)

const (
	// maxCalls is how many requests can be under way, and maxCallBytes how long
	// they can be together.
	maxCalls     = 256
	maxCallBytes = 64 << 20
)

// transport is standard input and output, a message a line. Unlike the SDK's
// own, what it cannot read costs its sender an error and nobody a job; and when
// the input ends, what is under way is still answered.
type transport struct {
	out   io.Writer
	lines chan []byte
	// ended is closed when the input has ended, over by Close.
	ended, over chan struct{}
	once        sync.Once

	writing sync.Mutex

	mu sync.Mutex
	// open are the lengths of the requests under way, bytes their sum, and
	// answers how many are being written. idle is told when that may be over.
	open           map[jsonrpc.ID]int
	bytes, answers int
	idle           *sync.Cond
}

// newTransport begins to read.
func newTransport(in io.Reader, out io.Writer) *transport {
	t := &transport{out: out, lines: make(chan []byte), ended: make(chan struct{}), over: make(chan struct{}), open: map[jsonrpc.ID]int{}}
	t.idle = sync.NewCond(&t.mu)
	go t.read(in)
	return t
}

// Connect is mcp.Transport's.
func (t *transport) Connect(context.Context) (mcp.Connection, error) { return t, nil }

// SessionID is mcp.Connection's: there is one session.
func (t *transport) SessionID() string { return "" }

// read hands on lines, nil for one that is too long.
func (t *transport) read(in io.Reader) {
	defer close(t.ended)
	l := rpc.NewLines(in)
	for {
		line, err := l.Next()
		switch {
		case errors.Is(err, rpc.ErrTooLong):
			line = nil
		case err != nil:
			return
		case len(line) == 0:
			continue
		}
		select {
		case t.lines <- line:
		case <-t.over:
			return
		}
	}
}

// Read is the next message that can be taken.
func (t *transport) Read(context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case line := <-t.lines:
			if m := t.take(line); m != nil {
				return m, nil
			}
		case <-t.ended:
			t.finish()
			return nil, io.EOF
		case <-t.over:
			return nil, io.EOF
		}
	}
}

// take decodes a message; nil is one that was answered with an error.
func (t *transport) take(line []byte) jsonrpc.Message {
	if line == nil {
		t.refuse(nil, jsonrpc.CodeInvalidRequest, "cannot read the line: it is longer than 16 MiB")
		return nil
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		var head struct{ ID json.RawMessage }
		if json.Unmarshal(line, &head) == nil {
			t.refuse(head.ID, jsonrpc.CodeInvalidRequest, "cannot take the message: it is none of JSON-RPC 2.0")
		} else {
			t.refuse(nil, jsonrpc.CodeParseError, "cannot read the line: it is not one JSON object")
		}
		return nil
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && !t.enter(r, len(line)) {
		return nil
	}
	return m
}

// enter notes a request as under way; false is one that was refused.
func (t *transport) enter(r *jsonrpc.Request, size int) bool {
	t.mu.Lock()
	_, double := t.open[r.ID]
	full := len(t.open) >= maxCalls || t.bytes+size > maxCallBytes && len(t.open) > 0
	if !double && !full {
		t.open[r.ID] = size
		t.bytes += size
	}
	t.mu.Unlock()
	switch {
	case double:
		t.refuse(nil, jsonrpc.CodeInvalidRequest, "cannot take the request: one of the same id is under way")
	case full:
		id, _ := json.Marshal(r.ID.Raw())
		t.refuse(id, jsonrpc.CodeInternalError, "cannot take the request: too many are under way; wait for answers")
	}
	return !double && !full
}

// finish waits until everything is answered, or the session is over.
func (t *transport) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.open)+t.answers > 0 && !t.closed() {
		t.idle.Wait()
	}
}

// idled is closed once everything is answered, or the session is over.
func (t *transport) idled() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.finish()
	}()
	return done
}

func (t *transport) closed() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// refusal is an error that the SDK knows nothing of.
type refusal struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   jsonrpc.Error   `json:"error"`
}

func (t *transport) refuse(id json.RawMessage, code int64, message string) {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	b, err := json.Marshal(refusal{"2.0", id, jsonrpc.Error{Code: code, Message: message}})
	if err == nil {
		_ = t.write(b) // who cannot be written to is found out by the next answer
	}
}

// Write is mcp.Connection's. An id can be used again as soon as its answer can
// be read.
func (t *transport) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if r, ok := m.(*jsonrpc.Response); ok {
		t.mu.Lock()
		t.bytes -= t.open[r.ID]
		delete(t.open, r.ID)
		t.answers++
		t.mu.Unlock()
		defer func() {
			t.mu.Lock()
			t.answers--
			t.idle.Broadcast()
			t.mu.Unlock()
		}()
	}
	return t.write(b)
}

func (t *transport) write(line []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	_, err := t.out.Write(append(line, '\n'))
	return err
}

// Close is mcp.Connection's. A read of the input that is under way is not
// awaited.
func (t *transport) Close() error {
	t.once.Do(func() {
		close(t.over)
		t.mu.Lock()
		t.idle.Broadcast()
		t.mu.Unlock()
	})
	return nil
}
