package serve

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/unitward/unitward/tests/peer"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// endless is the output of a job: as many messages, which do not end where they are
// less than none.
type endless int

func (e *endless) next() event {
	if *e == 0 {
		return nil
	}
	*e--
	return &Output{Name: "a"}
}

// lines takes what a writer writes, and tells of the one line that somebody waits for.
type lines struct {
	want  []byte
	found chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	if bytes.Contains(b, l.want) {
		close(l.found)
	}
	return len(b), nil
}

func (l *lines) wait(t *testing.T) {
	t.Helper()
	select {
	case <-l.found:
	case <-time.After(peer.Patience):
		t.Fatalf("%s is not written", l.want)
	}
}

// A job that stays and writes on does not hold back the last message, and the end of
// one that has ended comes behind all of its output.
func TestLastMessageDoesNotWaitForOutput(t *testing.T) {
	out := &lines{[]byte(NotifyEnded), make(chan struct{})}
	w := newWriter(out)
	stays, ends := endless(-1), endless(100)
	a, b := w.box(&stays), w.box(&ends)
	a.poke()
	b.tell(&Settled{Name: "a"}, true)
	w.last(notification(&Ended{}))
	w.close()
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.run()
	}()
	out.wait(t)
	<-written
	if ends != 0 {
		t.Errorf("%d pieces of output are not told", ends)
	}
}

// Who gives up a job.run of a job that another start had begun is answered at once,
// though the job writes on.
func TestCancelledRunDoesNotWaitForOutput(t *testing.T) {
	s := New(Config{MaxRunning: 1})
	out := &lines{[]byte(`"cancelled":true`), make(chan struct{})}
	s.w = newWriter(out)
	go s.w.run()
	defer s.w.close()
	writes := endless(-1)
	j := &job{s: s, name: "a", box: s.w.box(&writes), settled: make(chan struct{}), kept: make(chan struct{})}
	j.box.poke()
	s.initialized = true
	c, fault := s.enter(rpc.Request{ID: json.RawMessage("1"), Method: MethodRun})
	if fault != nil {
		t.Fatal(fault)
	}
	c.cancel()
	c.await(j, 0, true)
	out.wait(t)
}
