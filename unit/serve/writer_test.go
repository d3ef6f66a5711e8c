package serve

import (
	"bytes"
	"testing"
	"time"

	"github.com/unitward/unitward/tests/peer"
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
