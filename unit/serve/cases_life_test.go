package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/unitward/unitward/tests/peer"
	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/verify"
)

// Cases 18 to 44: lifetime, output, and exits as they are.

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
	switch {
	case s.rung != verify.IsolationService:
		r := s.sh(nil, "setsid sleep 472021 & kill -9 $PPID; sleep 472021; exit 3")
		s.ends(r.Report, "signaled", "KILL")
	case os.Geteuid() == 0:
		// The parent is the system manager, which the kernel protects. A user's
		// own it does not: that is case 45, of tests/e2e.
		s.ends(s.sh(nil, `test $PPID = 1 && kill -9 $PPID; exit 3`).Report, "failed", 3)
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
	if s.rung == verify.IsolationService { // who keeps its output is inside of the unit
		s.ends(s.stop(name, 1000), "cancelled", nil)
		return
	}
	// Outside of it is the keeper: without one the job goes on, and what it writes is
	// lost, which is said.
	if err := syscall.Kill(recordOf(s.t, s.state, name).Keeper.PID, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	s.ends(s.stop(name, 1000), "cancelled", "TERM")
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
	if !eventually(func() bool {
		if size := s.onDisk(name); size > most {
			s.t.Errorf("%d bytes are on disk, at most %d may be", size, most)
		}
		return s.written(name) > 4*most
	}) {
		s.t.Error("no output comes")
	}
	rep := s.stop(name, 1000)
	s.ends(rep, "cancelled", nil)
	if size := s.onDisk(name); size == 0 || size > most {
		s.t.Errorf("%d bytes are on disk, at most %d may be", size, most)
	}
	var o serve.OutputResult
	s.call("job.output", map[string]any{"name": name, "stream": "stdout", "max_bytes": 4 << 20}, &o)
	s.call("job.output", map[string]any{"name": name, "stream": "stdout", "max_bytes": 4 << 20, "cursor": o.Cursor}, &o)
	if len(o.Chunks) != 1 || o.Chunks[0].Dropped == 0 || !o.Ended {
		s.t.Errorf("what was dropped is not said: %d chunks, ended %v", len(o.Chunks), o.Ended)
	}
}

// onDisk is what the captured output of a job takes there, in bytes.
func (s *session) onDisk(name string) (sum int64) {
	files, _ := filepath.Glob(filepath.Join(s.state, "jobs", name, "std*"))
	for _, f := range files {
		var st syscall.Stat_t
		if syscall.Stat(f, &st) == nil { // what is being replaced is gone
			sum += st.Blocks * 512
		}
	}
	return sum
}

func muchOutput(s *session) {
	const size, most = 1 << 30, 30 << 20
	outputs := map[string]map[string]any{"kept": {"mode": "capture"}}
	if s.rung == verify.IsolationGroup { // a server reads a pipe alike, whoever holds the job
		outputs["told"] = map[string]any{"encoding": "base64"}
	}
	for name, output := range outputs {
		reader := dial(s.t, s.rung, options{state: s.state, deaf: true})
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, reader.Out)
		}()
		reader.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		job, _ := json.Marshal(reader.job(map[string]any{"name": name, "output": output}, "sh", "-c",
			s.script(fmt.Sprintf("head -c %d /dev/zero; touch $T/%s; exec sleep 472024", size, name))))
		reader.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"job.start","params":%s}`, job))
		for began := time.Now(); !s.exists(name); time.Sleep(10 * time.Millisecond) { // it is a lot to write
			if time.Since(began) > mostEnd {
				s.t.Fatalf("%s: it is not written", name)
			}
		}
		// The server, and whoever of it stays with the job.
		stay := 0
		for _, pid := range peer.Programs() {
			if pid == fmt.Sprint(os.Getpid()) {
				continue
			}
			stay++
			if n := memory(s.t, pid, "VmHWM"); n > most {
				s.t.Errorf("%s: process %s has had %d MiB", name, pid, n>>20)
			}
		}
		if stay < 2 {
			s.t.Errorf("%s: nothing was measured", name)
		}
		s.ends(s.stop(name, 1000), "cancelled", nil)
		reader.In.Close()
		<-read
	}
}

func followerIsKilled(s *session) {
	name := s.start(map[string]any{"lifetime": "detached"}, "sh", "-c", "while :; do echo x; sleep .02; done")
	before := peer.Programs()
	follower := s.again()
	follower.call("job.track", map[string]any{"name": name, "follow": true}, nil)
	follower.told("job/output", name)
	follower.kill()
	var left []string
	if !eventually(func() bool {
		left = slices.DeleteFunc(peer.Programs(), func(p string) bool { return slices.Contains(before, p) })
		return len(left) == 0
	}) {
		s.t.Errorf("of the follower the processes %v are left", left)
	}
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
		rep := s.run(nil, "sh", "-c", "ulimit -c 0; kill -"+name+" $$").Report
		if s.ends(rep, "signaled", name); rep.Exit.CoreDumped && name != "SEGV" {
			s.t.Errorf("%s dumps no core: %+v", name, rep.Exit)
		}
	}
	// Whether there is a core is the machine's setting (core(5)): a job's report
	// says what the shell's own wait does.
	script := s.script("cd $T && ulimit -c $(ulimit -H -c) && kill -SEGV $$")
	plain := exec.Command("sh", "-c", script)
	_ = plain.Run()
	want := plain.ProcessState.Sys().(syscall.WaitStatus).CoreDump()
	rep := s.run(nil, "sh", "-c", script).Report
	if s.ends(rep, "signaled", "SEGV"); rep.Exit.CoreDumped != want {
		s.t.Errorf("core dumped: %v, and without unitward %v", rep.Exit.CoreDumped, want)
	}
	s.t.Logf("core dumped: %v", want)
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

func manyCodes(s *session) {
	runs, width := 1000, 16
	if s.rung == verify.IsolationService || s.rung == verify.IsolationScope {
		runs = 200 // a manager is slower
	}
	all := func(runs int) {
		var ids []string
		for i := range runs + width {
			if i < runs {
				ids = append(ids, s.ask("job.run", s.job(nil, "sh", "-c", fmt.Sprint("exit ", i%256))))
			}
			if i < width {
				continue
			}
			var r serve.RunResult
			s.answer(ids[i-width]).into(s.t, &r)
			if !r.Report.Confirmed || code(r.Report) != (i-width)%256 {
				s.t.Errorf("run %d: %+v", i-width, r.Report)
			}
		}
	}
	descriptors := func() int {
		all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
		return len(all)
	}
	all(width) // what a server needs it has by then
	before, after := descriptors(), 0
	all(runs)
	if !eventually(func() bool {
		after = descriptors()
		return after <= before // what the warm-up closes may be closed later
	}) {
		s.t.Errorf("the server has %d descriptors, and had %d", after, before)
	}
}

func tooBig(s *session) {
	for name, args := range map[string][]string{
		"one argument of 200 KiB": {strings.Repeat("x", 200<<10)},
		"arguments of 3 MiB":      slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 31),
	} {
		argv := append([]string{"sh", "-c", s.script("touch $T/ran"), "sh"}, args...)
		for _, lifetime := range []string{"call", "detached"} {
			e := s.fails("start_failed", "job.start", s.job(map[string]any{"lifetime": lifetime}, argv...))
			if e.Data.Status != 126 || !strings.Contains(e.Message, "argument list too long") {
				s.t.Errorf("%s, %s: %+v", name, lifetime, e)
			}
		}
	}
	jobs, err := os.ReadDir(filepath.Join(s.state, "jobs"))
	if err != nil || s.exists("ran") || slices.ContainsFunc(jobs, func(d os.DirEntry) bool { return !strings.HasPrefix(d.Name(), ".") }) {
		s.t.Errorf("something ran, or was written down: %v, %v", jobs, err)
	}
}
