package main

import (
	"context"
	"io"
	"time"

	"github.com/unitward/unitward/unit/serve"
)

// farewellTime is how long the last answers can take to be written to a client
// that does not read.
const farewellTime = 5 * time.Second

// session is one client's.
type session struct {
	*client
	// after is how long a call waits before it answers with the job's name.
	after time.Duration
}

// attend serves the client at in and out until in ends, it takes no more, or
// ctx is done. Then jobs of lifetime call are stopped, as serve.Server.Serve has
// it, and it returns what is left.
func attend(ctx context.Context, cfg serve.Config, after time.Duration, in io.Reader, out io.Writer) serve.Ended {
	requests, toServer := io.Pipe()
	fromServer, answers := io.Pipe()
	ended := make(chan serve.Ended, 1)
	go func() {
		e := serve.New(cfg).Serve(ctx, requests, answers)
		_ = requests.Close() // what is written from now on is too late
		_ = answers.Close()
		ended <- e
	}()
	s := &session{client: newClient(toServer, fromServer), after: after}
	var greeted serve.InitializeResult
	t := newTransport(in, out)
	spoken := make(chan struct{})
	if err := s.call(ctx, serve.MethodInitialize, serve.InitializeParams{Protocol: serve.Protocol}, &greeted); err == nil {
		go func() {
			defer close(spoken)
			// Its error is the end of the stream, whatever it says.
			_ = s.server(cfg.Version).Run(context.WithoutCancel(ctx), t)
		}()
	}
	select {
	case <-t.ended:
	case <-spoken:
	case <-ctx.Done():
	}
	_ = toServer.Close()
	e := <-ended
	// What was under way is answered now.
	select {
	case <-spoken:
	case <-t.idled():
	case <-time.After(farewellTime):
	}
	_ = t.Close()
	return e
}
