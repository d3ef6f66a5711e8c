package dbusclient

import (
	"context"
	"runtime"
	"testing"
)

// A reply that came in time counts, also for who waits for it only when the time is up.
func TestReplyIsNotLostToItsTime(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{wire: p.wire}
	for range 32 { // of several that can go on a select takes any
		ctx, cancel := context.WithCancel(t.Context())
		asked := l.send(ctx, "/a", "i.f.A")
		p.write(replyTo(t, asked.serial, uint32(5)))
		for len(asked.reply) == 0 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		cancel()
		var n uint32
		if err := asked.wait(&n); err != nil || n != 5 {
			t.Fatalf("%d, %v", n, err)
		}
	}
}
