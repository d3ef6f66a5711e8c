package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/verify"
)

// Cases 18 to 29: lifetime, output, and exits as they are.

func serverIsKilled(s *session) {
	s.start(nil, "sh", "-c", "setsid sleep 4720181 & sleep 4720181")
	s.some("4720181")
	name := s.start(map[string]any{"lifetime": "detached"}, "sh", "-c", s.script("until test -e $T/go; do sleep .02; done; exit 7"))
	s.kill()
	if !eventually(func() bool { return processes("sleep", "4720181") == 0 }) {
		s.t.Error("a job of lifetime call outlives its server")
	}
	s = s.again()
	if st := s.status(name); st.Report.State != "running" {
		s.t.Errorf("%+v", st)
	}
	s.touch("go")
	s.ends(s.wait(name, "settled").Report, "failed", 7)
}

func (s *session) touch(file string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, file), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func ownerEnds(s *session) {
	owner := s.process("sleep", "4720190")
	name := s.start(map[string]any{"lifetime": "owner", "owner_pid": owner.Process.Pid}, "sleep", "4720191")
	_ = owner.Process.Kill()
	_ = owner.Wait()
	rep := s.settled(name)
	if s.ends(rep, "cancelled", "TERM"); *rep.Stop.By != "owner" {
		s.t.Errorf("%+v", rep.Stop)
	}
	s.none("4720191")
}

func detachedOutlives(s *session) {
	name := s.start(map[string]any{"lifetime": "detached"}, "sleep", "472020")
	if e := s.end(); !slices.Equal(e.Left, []string{name}) || !e.Confirmed {
		s.t.Errorf("%+v", e)
	}
	s.some("472020")
	s = s.again()
	s.ends(s.stop(name, 1000), "cancelled", "TERM")
}

func killsAround(s *session) {
	s.ends(s.sh(nil, "kill -TERM 0; sleep 472021").Report, "signaled", "TERM")
	s.ends(s.sh(nil, `kill -9 -$(ps -o pgid= $$ | tr -d " ")`).Report, "signaled", "KILL")
	if s.rung != verify.IsolationService { // whose parent is the manager
		r := s.sh(nil, "setsid sleep 472021 & kill -9 $PPID; sleep 472021; exit 3")
		s.ends(r.Report, "signaled", "KILL")
	}
	s.none("472021")
	s.ends(s.sh(nil, "exit 3").Report, "failed", 3) // the server is there
}

func outputGoesOn(s *session) {
	name := s.start(map[string]any{"lifetime": "detached"}, "sh", "-c", "while :; do echo x; sleep .02; done")
	s.kill()
	s = s.again()
	before := s.written(name)
	if !eventually(func() bool { return s.written(name) > before+4 }) {
		s.t.Error("no output comes")
	}
	s.ends(s.stop(name, 1000), "cancelled", nil)
}

// written is how much of a captured output is there, with what was dropped.
func (s *session) written(name string) (n int64) {
	s.t.Helper()
	cursor := ""
	for range 2 { // its beginning and its newest end
		var o serve.OutputResult
		s.call("job.output", map[string]any{"name": name, "stream": "stdout", "max_bytes": 4 << 20, "cursor": cursor}, &o)
		for _, c := range o.Chunks {
			n = c.Offset + int64(c.Bytes)
		}
		cursor = o.Cursor
	}
	return n
}

func capHolds(s *session) {
	const most = 1 << 20
	name := s.start(map[string]any{"lifetime": "detached", "output": map[string]any{"max_bytes": most}}, "yes")
	s.kill()
	s = s.again()
	if !eventually(func() bool { return s.written(name) > 4*most }) {
		s.t.Error("no output comes")
	}
	files, _ := filepath.Glob(filepath.Join(s.state, "jobs", name, "stdout*"))
	var size int64
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			size += st.Size()
		}
	}
	if size == 0 || size > most+most/8 {
		s.t.Errorf("%d bytes are on disk, in %v", size, files)
	}
	rep := s.stop(name, 1000)
	s.ends(rep, "cancelled", nil)
	var o serve.OutputResult
	s.call("job.output", map[string]any{"name": name, "stream": "stdout", "max_bytes": 4 << 20}, &o)
	s.call("job.output", map[string]any{"name": name, "stream": "stdout", "max_bytes": 4 << 20, "cursor": o.Cursor}, &o)
	if len(o.Chunks) != 1 || o.Chunks[0].Dropped == 0 || !o.Ended {
		s.t.Errorf("what was dropped is not said: %d chunks, ended %v", len(o.Chunks), o.Ended)
	}
}

func muchOutput(s *session) {
	const size = 256 << 20
	deaf := dial(s.t, s.rung, options{state: s.state, deaf: true})
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, deaf.Out)
	}()
	deaf.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	// What it takes is looked at while the last of the output is on its way.
	job, _ := json.Marshal(deaf.job(map[string]any{"name": "much"}, "sh", "-c", s.script(fmt.Sprintf("head -c %d /dev/zero; touch $T/written; exec sleep 472024", size))))
	deaf.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"job.start","params":%s}`, job))
	s.appears("written")
	if n := rss(s.t, deaf.Cmd.Process.Pid); n > 40<<20 {
		s.t.Errorf("the server has %d MiB", n>>20)
	}
	s.ends(s.stop("much", 1000), "cancelled", nil)
	deaf.In.Close()
	<-read
	s.ends(s.run(map[string]any{"output": map[string]any{"mode": "null"}}, "head", "-c", "5G", "/dev/zero").Report, "completed", 0)
	if n := rss(s.t, s.Cmd.Process.Pid); n > 30<<20 {
		s.t.Errorf("the server has %d MiB", n>>20)
	}
}

func followerIsKilled(s *session) {
	name := s.start(map[string]any{"lifetime": "detached"}, "sh", "-c", "while :; do echo x; sleep .02; done")
	follower := s.again()
	follower.call("job.track", map[string]any{"name": name, "follow": true}, nil)
	follower.told("job/output", name)
	follower.kill()
	if st := s.status(name); st.Report.State != "running" {
		s.t.Errorf("%+v", st)
	}
	s.ends(s.stop(name, 1000), "cancelled", nil)
}

func sigpipe(s *session) {
	r := s.sh(map[string]any{"timeout_ms": patience.Milliseconds()}, "yes | head -1")
	s.ends(r.Report, "completed", 0)
	if got := s.all(r.Name, "stdout"); got != "y\n" {
		s.t.Errorf("%q", got)
	}
}

func codesPass(s *session) {
	for _, n := range []int{0, 1, 2, 7, 123, 124, 125, 126, 127, 137, 203, 255} {
		why := "failed"
		if n == 0 {
			why = "completed"
		}
		s.ends(s.sh(nil, fmt.Sprint("exit ", n)).Report, why, n)
	}
}

func signalsAreNoCodes(s *session) {
	for _, name := range []string{"KILL", "TERM", "INT", "HUP", "PIPE", "SEGV"} {
		s.ends(s.run(nil, "sh", "-c", "ulimit -c 0; kill -"+name+" $$").Report, "signaled", name)
	}
}

func jobDecides(s *session) {
	for _, name := range []string{"TERM", "INT"} {
		job := s.start(nil, "bash", "-c", `trap "exit 5" `+name+`; echo up; while :; do sleep .02; done`)
		s.told("job/output", job)
		s.call("job.signal", map[string]any{"name": job, "signal": name}, nil)
		s.ends(s.settled(job), "failed", 5)
	}
	// A second stop shortens the grace of the first.
	job := s.start(nil, "sh", "-c", `trap "" TERM; echo up; while :; do sleep .02; done`)
	s.told("job/output", job)
	patient := s.ask("job.stop", map[string]any{"name": job, "grace_ms": 600_000})
	eventually(func() bool { return s.status(job).Report.State == "stopping" })
	s.ends(s.stop(job, 0), "cancelled", "KILL")
	var r serve.StopResult
	s.answer(patient).into(s.t, &r)
	s.ends(r.Report, "cancelled", "KILL")
	// A signal to the server is its end, with the proof.
	job = s.start(nil, "sh", "-c", `trap "exit 6" TERM; echo up; while :; do sleep .02; done`)
	s.told("job/output", job)
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	m := s.find("server/ended", func(m *message) bool { return m.Method == "server/ended" })
	var e serve.Ended
	if err := json.Unmarshal(m.Params, &e); err != nil || e.Why != "signal" || !e.Confirmed || strings.Join(e.Stopped, " ") != job {
		s.t.Errorf("%v, %+v", err, e)
	}
	s.ends(s.settled(job), "cancelled", 6)
}
