package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// call is a request that is under way.
type call struct {
	s   *Server
	req rpc.Request
	// ctx is done when the request was cancelled: by the client, or with errEnded as
	// its cause by the end of the server.
	ctx   context.Context
	close context.CancelCauseFunc
}

// errEnded is why a request is cancelled that still waits when all is stopped that
// ends with the server.
var errEnded = errors.New("the server ends")

// cancel is for a client that does not want the request any more, and for whoever
// gives up its start.
func (c *call) cancel() { c.close(nil) }

// method is how a request is carried out. What it does itself is done before
// the next request is read; what it returns, if anything, is done meanwhile.
type method func(*call) (later func())

// methods are by name.
func methods(name string) method {
	switch name {
	case MethodInitialize:
		return (*call).initialize
	case MethodStart:
		return (*call).start
	case MethodRun:
		return (*call).run
	case MethodTrack:
		return (*call).track
	case MethodPromote:
		return (*call).promote
	case MethodStatus:
		return (*call).status
	case MethodList:
		return (*call).list
	case MethodWait:
		return (*call).wait
	case MethodStop:
		return (*call).stop
	case MethodStopOwner:
		return (*call).stopOwner
	case MethodSignal:
		return (*call).signal
	case MethodPause:
		return (*call).pause
	case MethodResume:
		return (*call).resume
	case MethodWrite:
		return (*call).write
	case MethodCloseStdin:
		return (*call).closeStdin
	case MethodOutput:
		return (*call).output
	case MethodRelease:
		return (*call).release
	case MethodAbortStart:
		return (*call).abortStart
	case MethodDoctor:
		return (*call).doctor
	case MethodShutdown:
		return (*call).shutdown
	}
	return nil
}

// take carries out one line, or begins to.
func (s *Server) take(line []byte) {
	req, bad := rpc.Parse(line)
	if bad != nil {
		s.main.put(failure(req.ID, asFault(bad)), false)
		return
	}
	if req.ID == nil {
		s.notified(req)
		return
	}
	do := methods(req.Method)
	if do == nil {
		s.main.put(failure(req.ID, fail(CodeMethod, KindMethod, fmt.Sprintf("cannot carry out %.100q: there is no such method", req.Method))), false)
		return
	}
	c, fault := s.enter(req)
	if fault != nil {
		id := req.ID
		if fault.Data.Kind == KindID {
			id = nil // the answer of that id is the other request's
		}
		s.main.put(failure(id, fault), false)
		return
	}
	later := do(c)
	if later == nil {
		return
	}
	s.tasks.Go(later)
}

// enter notes a request as under way.
func (s *Server) enter(req rpc.Request) (*call, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := rpc.Key(req.ID)
	switch {
	case s.calls[k] != nil:
		e := fail(CodeRequest, KindID, "cannot take the request: one of the same id is under way")
		e.Data.ID = req.ID
		return nil, e
	case s.ending:
		return nil, errEnding()
	case !s.initialized && req.Method != MethodInitialize && req.Method != MethodShutdown:
		return nil, fail(CodeUninitialized, KindUninitialized, "cannot take the request: the first is initialize")
	case len(s.calls) >= maxCalls, s.bytes+req.Size > maxCallBytes && len(s.calls) > 0:
		return nil, fail(CodeAdmission, KindAdmission, "cannot take the request: too many are under way", "wait for answers")
	}
	c := &call{s: s, req: req}
	c.ctx, c.close = context.WithCancelCause(context.Background())
	s.calls[k] = c
	s.bytes += req.Size
	return c, nil
}

func errEnding() *Error {
	return fail(CodeShutdown, KindShutdown, "cannot take the request: the server is ending")
}

// large carries out a request whose answer can be so: few at a time, and none
// while much waits to be written, so that what nobody reads is bounded.
func (c *call) large(do func()) func() {
	return func() {
		select {
		case c.s.large <- struct{}{}:
			defer func() { <-c.s.large }()
		case <-c.ctx.Done():
			c.fail(c.ctx.Err())
			return
		}
		c.s.w.room()
		do()
	}
}

// notified takes a message that wants no answer. It gets one all the same when
// it is none that there is: whoever forgot the id would wait for ever.
func (s *Server) notified(req rpc.Request) {
	if req.Method != MethodCancel {
		s.main.put(failure(nil, fail(CodeRequest, KindRequest, fmt.Sprintf("cannot carry out %.100q: it has no id", req.Method)).field("id")), false)
		return
	}
	var p CancelParams
	if fault := req.ReadParams(&p); fault != nil {
		s.main.put(failure(nil, asFault(fault)), false)
		return
	}
	s.mu.Lock()
	c := s.calls[rpc.Key(p.ID)]
	s.mu.Unlock()
	if c != nil { // else it was answered meanwhile
		c.cancel()
	}
}

// leave ends a request, so that its id can be used again.
func (c *call) leave() {
	c.cancel()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	delete(c.s.calls, rpc.Key(c.req.ID))
	c.s.bytes -= c.req.Size
}

// answer gives the result, in a job's box where the order matters; nil is no
// job's.
func (c *call) answer(b *box, result any) { c.reply(b, result, false) }

// reply is answer; last is for one that comes after the job's output.
func (c *call) reply(b *box, result any, last bool) {
	c.leave()
	if b == nil {
		b = c.s.main
	}
	b.put(envelope{ID: c.req.ID, Result: result}, last)
}

// fail gives an error as the answer.
func (c *call) fail(err error) {
	c.leave()
	c.s.main.put(failure(c.req.ID, asError(err)), false)
}

// params reads the parameters; false when that has failed and was answered.
func (c *call) params(into any) bool {
	var fault *Error
	if bad := c.req.ReadParams(into); bad != nil {
		fault = asFault(bad)
	}
	if name := nameIn(into); fault == nil && name != nil {
		parsed, err := unit.ParseName(*name)
		if *name = parsed; err != nil {
			fault = asError(err).field("name")
		}
	}
	if fault != nil {
		c.fail(fault)
		return false
	}
	return true
}

// nameIn is where parameters name a job that is to be there; nil for those that
// name none.
func nameIn(params any) *string {
	switch p := params.(type) {
	case *NameParams:
		return &p.Name
	case *TrackParams:
		return &p.Name
	case *WaitParams:
		return &p.Name
	case *StopParams:
		return &p.Name
	case *SignalParams:
		return &p.Name
	case *WriteParams:
		return &p.Name
	case *OutputQuery:
		return &p.Name
	}
	return nil
}

func failure(id json.RawMessage, e *Error) envelope {
	if id == nil {
		id = json.RawMessage("null")
	}
	return envelope{ID: id, Error: e}
}
