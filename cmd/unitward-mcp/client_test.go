package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// sink is a server that reads and says nothing.
type sink struct{ io.Writer }

func (sink) Close() error { return nil }

// The server would answer nobody for a line that is too long for it.
func TestTooLongRequest(t *testing.T) {
	silent, end := io.Pipe()
	defer end.Close()
	var sent strings.Builder
	c := newClient(sink{&sent}, silent)
	var refused *serve.Error
	if err := c.call(t.Context(), "job.start", map[string]string{"name": strings.Repeat("x", rpc.MaxLine)}, nil); !errors.As(err, &refused) || refused.Data.Kind != serve.KindTooLong {
		t.Errorf("answered with %v", err)
	}
	if sent.Len() > 0 {
		t.Errorf("%d bytes were sent", sent.Len())
	}
	// Of these each would be six bytes.
	c.send(t.Context(), "job.start", map[string]string{"name": strings.Repeat("<", rpc.MaxLine/2)})
	if n := sent.Len(); n < rpc.MaxLine/2 || n > rpc.MaxLine/2+100 {
		t.Errorf("%d bytes were sent", n)
	}
}
