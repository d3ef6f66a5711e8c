package serve_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/verify"
)

// reads takes a captured stream to its present end, or to where it gets no further.
func (c *client) reads(name, encoding string) (text string, next int64, ended bool) {
	c.t.Helper()
	at := ""
	for {
		var o serve.OutputResult
		c.call("job.output", map[string]any{"name": name, "stream": "stdout", "cursor": at, "encoding": encoding}, &o)
		for _, chunk := range o.Chunks {
			text, next = text+chunk.Data, chunk.Offset+int64(chunk.Bytes)
		}
		if len(o.Chunks) == 0 {
			if o.More {
				c.t.Errorf("at %s there is more, and it does not come", at)
			}
			return text, next, o.Ended
		}
		at = o.Cursor
	}
}

// Where bytes were dropped after half a character its rest never comes: what follows
// does.
func TestGapAfterHalfACharacter(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		c := dial(t, rung, options{state: state})
		const most, size = 1000, 499 + 2 + 5000
		name := c.start(map[string]any{"lifetime": "detached", "output": map[string]any{"max_bytes": most}}, "sh", "-c",
			`head -c 499 /dev/zero | tr "\0" a; printf "\303\251"; head -c 5000 /dev/zero | tr "\0" b; exec sleep 4814`)
		if !eventually(func() bool { _, next, _ := c.reads(name, "base64"); return next == size }) {
			t.Fatal("it is not written")
		}
		begins := strings.Repeat("a", 499) + "\uFFFDb"
		if text, next, ended := c.reads(name, ""); !strings.HasPrefix(text, begins) || next != size || ended {
			t.Errorf("%d bytes, ended %v: %q", next, ended, text)
		}
		follower := dial(t, rung, options{state: state})
		follower.call("job.track", map[string]any{"name": name, "follow": true}, nil)
		follower.told("job/dropped", name)
		if !eventually(func() bool { return int64(len(follower.all(name, "stdout"))-2)+follower.dropped(name) == size }) {
			t.Error("not all is told")
		}
		if got := follower.all(name, "stdout"); !strings.HasPrefix(got, begins) {
			t.Errorf("%q", got)
		}
		c.call("job.stop", map[string]any{"name": name}, nil)
		if text, next, ended := c.reads(name, ""); !strings.HasPrefix(text, begins) || next != size || !ended {
			t.Errorf("%d bytes, ended %v: %q", next, ended, text)
		}
	})
}

// Nor does the rest come where who kept the output was killed.
func TestKeeperIsKilledAfterHalfACharacter(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		if rung == verify.IsolationService {
			return // its keeper ends with it
		}
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		c := dial(t, rung, options{state: state})
		name := c.start(map[string]any{"lifetime": "detached"}, "sh", "-c", `printf "ab\303"; exec sleep 4815`)
		if !eventually(func() bool { _, next, _ := c.reads(name, "base64"); return next == 3 }) {
			t.Fatal("it is not written")
		}
		if text, _, ended := c.reads(name, ""); text != "ab" || ended {
			t.Errorf("%q, ended %v", text, ended)
		}
		if err := syscall.Kill(recordOf(t, state, name).Keeper.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.call("job.stop", map[string]any{"name": name}, nil)
		if text, next, ended := c.reads(name, ""); text != "ab\uFFFD" || next != 3 || !ended {
			t.Errorf("%q, %d bytes, ended %v", text, next, ended)
		}
	})
}
