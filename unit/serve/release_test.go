package serve

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// A client that is told of the end of a job can have it released at once: it is, and
// nothing of it is remembered.
func TestReleaseMeetsTheEndOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := launch.New(launch.Config{StateDir: t.TempDir() + "/state", Getenv: os.Getenv, UID: os.Geteuid()})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var said bytes.Buffer
		s := New(Config{Launcher: l, MaxRunning: 1})
		s.w, s.initialized = newWriter(&said), true
		s.main = s.w.box(nil)
		j := &job{s: s, name: "a", box: s.w.box(nil), settled: make(chan struct{}), changed: make(chan struct{})}
		s.remember(j)
		s.at = func(m moment) {
			c, fault := s.enter(rpc.Request{ID: json.RawMessage("1"), Method: MethodRelease, Params: json.RawMessage(`{"name":"a"}`)})
			if m != endTold || fault != nil {
				t.Fatalf("moment %d, %+v", m, fault)
			}
			s.tasks.Go(c.release())
			synctest.Wait() // until it has come as far as it can
		}
		j.finish(unit.Report{})
		s.tasks.Wait()
		s.w.close()
		if s.w.run(); !bytes.Contains(said.Bytes(), []byte(`"result":{"name":"a"}`)) {
			t.Errorf("%s", said.Bytes())
		}
		if len(s.jobs) != 0 || len(s.retired) != 0 {
			t.Errorf("%d jobs are remembered, %d as settled", len(s.jobs), len(s.retired))
		}
	})
}
