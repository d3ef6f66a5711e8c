package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The tracer runs the program under ptrace(2) and stops it before and after
// each system call by which it acts on the world, or hears of it: the fault
// points. So every write and call of the program as it is shipped is one,
// without a hook in it, and none is forgotten when the program changes.
//
// It is a process of its own, this test binary: what is traced is traced by one
// thread, which is to wait for nothing else.

// tracerVariable makes this binary a tracer. It has the path of the program.
const tracerVariable = "UNITWARD_TEST_TRACER"

// point is a fault point: the nth of a role in a phase.
type point struct {
	Phase, Role string
	N           int
	// What says which call it is, and whether before or after it.
	What string `json:",omitempty"`
}

func (p point) String() string { return fmt.Sprintf("%s/%s/%d %s", p.Phase, p.Role, p.N, p.What) }

// same leaves out What, in which another run may have other numbers.
func (p point) same(q point) bool { return p.Phase == q.Phase && p.Role == q.Role && p.N == q.N }

// errand is what a tracer is told to do.
type errand struct {
	// Do is spawn, watch, phase, target, resume or quit.
	Do string
	// ID names what is spawned: it is its role too.
	ID        string
	Argv, Env []string
	Said      string // the file for its standard output and error
	PID       int    // of what is watched: a manager
	Phase     string
	Target    point
	// Hold stops the process at the target, rather than kill it.
	Hold bool
}

// news is what a tracer tells.
type news struct {
	// What is point, struck, held, exit (of what was spawned), main (the end of
	// the job's main process) or failed.
	What   string
	Point  point
	ID     string
	PID    int
	Status syscall.WaitStatus
	Err    string
}

// traced is a process that is traced.
type traced struct {
	pid, parent int
	role, id    string
}

// tracer is the state of a tracer.
type tracer struct {
	program string
	out     *json.Encoder
	phase   string
	counts  map[[2]string]int
	target  errand
	fired   bool
	held    int // the thread; 0 is none
	// threads are the processes of threads; calls are what those are in.
	threads map[int]*traced
	calls   map[int]*call
	pids    map[int]*traced
}

// runTracer is the tracer's main function.
func runTracer(program string) int {
	runtime.LockOSThread()
	t := &tracer{program: program, out: json.NewEncoder(os.Stdout), counts: map[[2]string]int{},
		threads: map[int]*traced{}, calls: map[int]*call{}, pids: map[int]*traced{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	errands := make(chan errand)
	go func() {
		defer close(errands)
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var e errand
			if json.Unmarshal(in.Bytes(), &e) != nil {
				return
			}
			errands <- e
		}
	}()
	for {
		for quiet := 0; quiet < 20; quiet++ { // to be woken takes longer than many calls
			var ws unix.WaitStatus
			tid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOHANG, nil)
			if err == nil && tid > 0 {
				t.stopped(tid, ws)
				quiet = 0
			}
		}
		select {
		case <-ended:
		case e, ok := <-errands:
			if !ok || e.Do == "quit" {
				return 0 // what is traced goes on by itself
			}
			if err := t.do(e); err != nil {
				t.tell(news{What: "failed", Err: err.Error()})
			}
		}
	}
}

func (t *tracer) tell(n news) { _ = t.out.Encode(n) } // whoever does not listen is gone

const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC

func (t *tracer) do(e errand) error {
	switch e.Do {
	case "spawn":
		return t.spawn(e)
	case "watch":
		if err := unix.PtraceSeize(e.PID); err != nil {
			return fmt.Errorf("cannot trace the manager: %w", err)
		}
		t.threads[e.PID] = &traced{pid: e.PID, role: "manager"}
		t.pids[e.PID] = t.threads[e.PID]
		// Options can be set while it stands.
		if err := unix.PtraceInterrupt(e.PID); err != nil {
			return fmt.Errorf("cannot trace the manager: %w", err)
		}
	case "phase":
		t.phase = e.Phase
	case "target":
		t.target = e
	case "resume":
		if tid := t.held; tid != 0 {
			t.held = 0
			t.goOn(tid, t.threads[tid], 0)
		}
	}
	return nil
}

func (t *tracer) spawn(e errand) error {
	said, err := os.OpenFile(e.Said, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer said.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(e.Argv[0], e.Argv, &syscall.ProcAttr{
		Dir: "/", Env: e.Env, Files: []uintptr{null.Fd(), said.Fd(), said.Fd()}, Sys: &syscall.SysProcAttr{Ptrace: true, Setsid: true},
	})
	if err != nil {
		return err
	}
	if err := t.seize(pid); err != nil {
		return fmt.Errorf("cannot trace %s: %w", e.Argv[0], err)
	}
	p := &traced{pid: pid, role: "wrapper", id: e.ID}
	t.threads[pid], t.pids[pid] = p, p
	t.executed(p)
	return unix.Kill(pid, unix.SIGCONT)
}

// seize traces a process that stands at its exec in the way of PTRACE_SEIZE. As
// PTRACE_TRACEME has it, each new thread gets a SIGSTOP, which stops all of its
// process for ever when the tracer ends before it has heard of it.
func (t *tracer) seize(pid int) error {
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil {
		return err
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(unix.SIGSTOP), 0, 0); errno != 0 {
		return errno
	}
	if _, err := unix.Wait4(pid, &ws, unix.WUNTRACED, nil); err != nil {
		return err
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, traceOptions, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// stopped deals with what a thread has stopped for.
func (t *tracer) stopped(tid int, ws unix.WaitStatus) {
	p := t.threads[tid]
	if ws.Exited() || ws.Signaled() {
		t.ended(tid, p, ws)
		return
	}
	first := p == nil
	if first {
		if p = t.meet(tid); p == nil {
			return // gone
		}
	}
	event := int(ws) >> 16
	switch {
	case event == unix.PTRACE_EVENT_EXEC:
		for other, q := range t.threads {
			if q == p && other != tid {
				delete(t.threads, other)
				delete(t.calls, other)
			}
		}
		if t.executed(p) {
			t.goOn(tid, p, 0)
		}
	case event == unix.PTRACE_EVENT_STOP:
		if p.role == "manager" {
			_ = unix.PtraceSetOptions(tid, traceOptions)
		}
		if s := ws.StopSignal(); s != unix.SIGTRAP {
			_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_LISTEN, uintptr(tid), 0, 0, 0, 0)
			return
		}
		t.goOn(tid, p, 0)
	case event != 0:
		t.goOn(tid, p, 0)
	case ws.StopSignal() == unix.SIGTRAP|0x80:
		if t.pointAt(tid, p) {
			t.goOn(tid, p, 0)
		}
	case first && ws.StopSignal() == unix.SIGSTOP: // every new one begins so
		t.goOn(tid, p, 0)
	default:
		t.goOn(tid, p, ws.StopSignal())
	}
}

// goOn lets a thread go on; for those whose calls count, to the next.
func (t *tracer) goOn(tid int, p *traced, s syscall.Signal) {
	// It may have been killed: its end is heard of then.
	if p == nil || p.role == "manager" || p.role == "managed" || p.role == "job" || p.role == "wrapper" {
		_ = unix.PtraceCont(tid, int(s))
		return
	}
	_ = unix.PtraceSyscall(tid, int(s))
}

// meet finds out what a new thread is.
func (t *tracer) meet(tid int) *traced {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return nil
	}
	var pid, parent int
	for line := range strings.Lines(string(b)) {
		if s, ok := strings.CutPrefix(line, "Tgid:"); ok {
			_, _ = fmt.Sscan(s, &pid)
		}
		if s, ok := strings.CutPrefix(line, "PPid:"); ok {
			_, _ = fmt.Sscan(s, &parent)
		}
	}
	p := t.pids[pid]
	if p == nil {
		p = &traced{pid: pid, parent: parent, role: "forked"}
		if from := t.pids[parent]; from != nil {
			t.named(from)
			switch from.role {
			case "manager", "managed":
				p.role = "managed"
			case "job":
				p.role = "stranger"
			case "reaper":
				p.role = "main"
			}
		}
		t.pids[pid] = p
	}
	t.threads[tid] = p
	if p.role == "stranger" {
		t.leave(p)
		return nil
	}
	return p
}

// named takes the role of a process that has run no program of its own from the
// name that it gave to itself.
func (t *tracer) named(p *traced) {
	if p.role != "forked" {
		return
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid))
	switch name := strings.TrimSpace(string(comm)); name {
	case "unitward-reaper", "unitward-guard":
		p.role = strings.TrimPrefix(name, "unitward-")
	}
}

// executed takes the role of a process from the program that it has become;
// false when it is none of ours any more.
func (t *tracer) executed(p *traced) bool {
	dir := fmt.Sprintf("/proc/%d/", p.pid)
	exe, _ := os.Readlink(dir + "exe")
	cmdline, _ := os.ReadFile(dir + "cmdline")
	environ, _ := os.ReadFile(dir + "environ")
	argv := strings.Split(string(cmdline), "\x00")
	verb := ""
	if len(argv) > 1 {
		verb = argv[1]
	}
	switch {
	case exe == t.program && (verb == "_keep" || verb == "_tend"):
		p.role = "keeper"
	case exe == t.program && strings.HasPrefix(verb, "_"):
		p.role = strings.TrimPrefix(verb, "_")
	case exe == t.program && p.id != "":
		p.role = p.id
	case p.role == "wrapper", p.role == "job":
	case p.role == "managed" && filepath.Base(exe) == "systemd-executor":
	case (p.role == "main" || p.role == "become" || p.role == "managed") && strings.Contains(string(environ), markVariable+"="):
		p.role = "job"
		_ = unix.PtraceSetOptions(p.pid, unix.PTRACE_O_TRACEEXEC) // its children are not traced
	default:
		t.leave(p)
		return false
	}
	return true
}

// leave lets go of a process for good.
func (t *tracer) leave(p *traced) {
	for tid, q := range t.threads {
		if q == p {
			_ = unix.PtraceDetach(tid)
			delete(t.threads, tid)
			delete(t.calls, tid)
		}
	}
	delete(t.pids, p.pid)
}

func (t *tracer) ended(tid int, p *traced, ws unix.WaitStatus) {
	delete(t.threads, tid)
	delete(t.calls, tid)
	if t.held == tid {
		t.held = 0
	}
	if p == nil || p.pid != tid {
		return
	}
	delete(t.pids, tid)
	switch {
	case p.id != "":
		t.tell(news{What: "exit", ID: p.id, PID: tid, Status: syscall.WaitStatus(ws)})
	case p.role == "job":
		t.tell(news{What: "main", PID: tid, Status: syscall.WaitStatus(ws)})
	}
}
