package serve

import (
	"testing"

	"github.com/unitward/unitward/unit/serve/rpc"
)

// A job whose output cannot be read is not started.
func TestOutputThatCannotBeRead(t *testing.T) {
	g := &gather{}
	if err := g.open(); err != nil {
		t.Fatal(err)
	}
	g.close() // it takes no pipe any more
	s := New(Config{})
	s.gather = g
	e, err := s.open(&StartParams{Command: []rpc.Text{"true"}, Output: OutputParams{Mode: modeNotify}})
	if err == nil {
		t.Error("it is started")
	}
	e.closeJobs()
}
