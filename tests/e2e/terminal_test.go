package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit/terminal"
	"github.com/unitward/unitward/verify"
)

// A job with -t has a terminal for its streams, which is its controlling one
// and as large as the caller's.
func TestTerminal(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		s := newSeat(t)
		p := s.begin(w.cmd("run", "-t", "--", "sh", "-c", `
			for fd in 0 1 2; do test -t $fd || echo no $fd; done
			(exec 3<>/dev/tty) && echo controlled >/dev/tty
			read -r _ _ _ _ group session tty foreground _ </proc/self/stat
			test $group = $session -a $session = $foreground -a $tty != 0 && echo leads
			echo size $(stty size); stty -a | grep -o ' echo '
			exit 7`))
		p.wants(7)
		s.showsAll("controlled\r\nleads\r\nsize 33 99\r\n echo \r\n")
	})
}

// Case 49: without -t a job has a session of its own and no terminal, also where
// its streams are one: it reads from none, and neither stops its caller nor changes
// what that has.
func TestTerminalNotAsked(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		s := newSeat(t)
		before := s.mode()
		p := s.begin(w.cmd("run", "--", "bash", "-lic", `read x </dev/tty || echo none
			read -r _ _ _ _ _ session tty _ </proc/$$/stat; echo session $session of $$ tty $tty.`))
		caller := p.cmd.Process.Pid
		for ended := false; !ended; {
			select {
			case <-p.ended:
				ended = true
			case <-time.After(5 * time.Millisecond): // what is looked for is a state
				if state := stateOf(caller); state == "T" || state == "t" {
					t.Fatalf("the caller is stopped: %s", s.shown())
				}
			}
			if group := s.foreground(); group != caller && !exiting(caller) {
				t.Fatalf("group %d has the terminal of %d: %s", group, caller, s.shown())
			}
		}
		p.wants(0)
		s.shows("none\r\n")
		s.shows(" tty 0.\r\n")
		var session int
		_, rest, _ := strings.Cut(s.shown(), "\r\nsession ")
		if fmt.Sscan(rest, &session); session <= 0 || session == caller {
			t.Errorf("its session is %d, its caller's %d: %q", session, caller, s.shown())
		}
		if after := s.mode(); after != before {
			t.Errorf("the mode is %+v, was %+v", after, before)
		}
	})
}

func TestTerminalKeys(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		s := newSeat(t)
		p := s.begin(w.cmd("run", "-t", "--", "cat"))
		s.raw()
		s.types("hello\r")
		s.shows("hello\r\nhello\r\n")
		s.types("\x04") // Ctrl-D
		p.wants(0)
		for keys, name := range map[string]string{"\x03": "INT", "\x1c": "QUIT"} {
			s := newSeat(t)
			p := s.begin(w.cmd("run", "-t", "--", "sh", "-c", `trap "echo got; exit 4" `+name+`; echo up; while :; do sleep .03; done`))
			s.shows("up\r\n")
			s.types(keys)
			p.wants(4)
			s.shows("got\r\n")
		}
	})
}

func TestTerminalSize(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		s := newSeat(t)
		p := s.begin(w.cmd("run", "-t", "--", "sh", "-c", `trap 'stty size; exit 3' WINCH; echo up; while :; do sleep .03; done`))
		s.shows("up\r\n")
		s.raw()
		if err := terminal.SetSize(s.master, terminal.Size{Rows: 50, Cols: 132}); err != nil {
			t.Fatal(err)
		}
		p.wants(3)
		s.shows("50 132\r\n")
	})
}

// The caller's terminal is as it was, whichever way unitward ends or stops.
func TestTerminalRestored(t *testing.T) {
	const forever = `echo up; while :; do sleep .03; done`
	in(t, all, func(t *testing.T, w *ward) {
		for _, c := range []struct {
			name   string
			args   []string
			does   func(*seated, *ward)
			status int
		}{
			{"ends", []string{"sh", "-c", "exit 0"}, nil, 0},
			{"fails", []string{"sh", "-c", "exit 9"}, nil, 9},
			{"killed", []string{"sh", "-c", "kill -9 $$"}, nil, 137},
			{"changes it", []string{"sh", "-c", "stty raw -echo; exit 3"}, nil, 3},
			{"not found", []string{"no-such-command-anywhere"}, nil, 127},
			{"not executable", []string{"/"}, nil, 126},
			{"wrong", []string{"--timeout", "x", "true"}, nil, 125},
			{"timeout", []string{"--timeout", "300ms", "sleep", "1101"}, nil, 124},
			{"TERM", []string{"sh", "-c", forever}, func(p *seated, _ *ward) { p.signal(syscall.SIGTERM) }, 143},
			{"INT", []string{"sh", "-c", forever}, func(p *seated, _ *ward) { p.signal(syscall.SIGINT) }, 130},
			{"HUP", []string{"sh", "-c", forever}, func(p *seated, _ *ward) { p.signal(syscall.SIGHUP) }, 129},
			{"QUIT", []string{"sh", "-c", "ulimit -c 0; " + forever}, func(p *seated, _ *ward) { p.signal(syscall.SIGQUIT) }, 131},
			{"keys", []string{"sh", "-c", `trap "" INT TERM HUP; ` + forever}, func(p *seated, _ *ward) { p.types("\x1d\x1d\x1d") }, 137},
			{"stopped from elsewhere", []string{"-u", "stopped", "sh", "-c", forever}, func(_ *seated, w *ward) { w.want(0, "stop", "stopped") }, 143},
			{"screen", []string{"sh", "-c", `printf '\033[?1049h\033[?25l\033[1m'; ` + forever}, func(p *seated, _ *ward) { p.signal(syscall.SIGTERM) }, 143},
		} {
			t.Run(c.name, func(t *testing.T) {
				w, s := w.again(t), newSeat(t)
				before := s.mode()
				p := s.begin(w.cmd(append([]string{"run", "-t"}, c.args...)...))
				if c.does != nil {
					s.shows("up\r\n")
					s.raw()
					c.does(p, w)
				}
				p.wants(c.status)
				if after := s.mode(); after != before {
					t.Errorf("the mode is %+v, was %+v", after, before)
				}
				if c.name == "screen" {
					s.shows("up\r\n\x1b[?25h\x1b[m\x1b[?1049l")
				}
			})
		}
	})
}

// So it is after the death of the process that every orphan of the job comes to.
func TestTerminalReaperKilled(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		s := newSeat(t)
		before := s.mode()
		p := s.begin(w.cmd("run", "-t", "-u", "reaped", "--", "sh", "-c", "echo up; exec sleep 1105"))
		s.shows("up\r\n")
		s.raw()
		reaper := w.recordOf("reaped").Reaper.PID
		if err := syscall.Kill(reaper, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.wants(137)
		if after := s.mode(); after != before {
			t.Errorf("the mode is %+v, was %+v", after, before)
		}
	})
}

// A stop gives the terminal back, and a process that goes on takes it again.
func TestTerminalStopped(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for _, stop := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGSTOP} {
			s := newSeat(t)
			before := s.mode()
			p := s.begin(w.cmd("run", "-t", "--", "sh", "-c", `echo up; stty -echo; while read -r x; do echo got $x; stty size; done; exit 5`))
			s.shows("up\r\n")
			s.raw()
			p.signal(stop)
			if !eventually(func() bool { return stateOf(p.cmd.Process.Pid) == "T" }) {
				t.Fatalf("%v: it is not stopped", stop)
			}
			if after := s.mode(); stop == syscall.SIGTSTP && after != before {
				t.Errorf("%v: the mode is %+v, was %+v", stop, after, before)
			}
			// As a shell that takes over does, and whose user then resizes.
			if err := unix.IoctlSetTermios(int(s.slave.Fd()), unix.TCSETS, &before); err != nil {
				t.Fatal(err)
			}
			if err := terminal.SetSize(s.master, terminal.Size{Rows: 44, Cols: 88}); err != nil {
				t.Fatal(err)
			}
			p.signal(syscall.SIGCONT)
			s.raw()
			s.types("again\r")
			s.shows("got again\r\n44 88\r\n")
			s.types("\x04")
			p.wants(5)
			if after := s.mode(); after != before {
				t.Errorf("%v: at the end the mode is %+v, was %+v", stop, after, before)
			}
		}
	})
}

// stateOf is the letter of a process's state.
func stateOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// exiting is true from when a process begins to end, which is before it gives its
// terminal back (do_exit() in the kernel's sources).
func exiting(pid int) bool {
	s, err := proc.Root.Stat(pid)
	return err != nil || s.Exiting
}

// What is typed into a pipe reaches the job's terminal, and so does its end.
func TestTerminalFromPipe(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for input, want := range map[string]string{"": "", "one\ntwo\n": "<one>\r\n<two>\r\n", "one\ntwo": "<one>\r\n<two>\r\n"} {
			s := newSeat(t)
			before := s.mode()
			cmd := w.cmd("run", "-t", "--", "sh", "-c", `stty -echo; test -t 0 && while read -r x || [ "$x" ]; do echo "<$x>"; done; exit 6`)
			cmd.Stdin = strings.NewReader(input)
			p := s.begin(cmd)
			p.wants(6)
			// What came before stty was echoed, as at any terminal.
			if !eventually(func() bool { return strings.HasSuffix(s.shown(), want) }) {
				t.Errorf("%q came to %q, want %q", input, s.shown(), want)
			}
			if after := s.mode(); after != before {
				t.Errorf("the mode is %+v, was %+v", after, before)
			}
		}
		// A shell that reads keys by itself sees the end too.
		s := newSeat(t)
		cmd := w.cmd("run", "-t", "--", "bash", "--norc", "-i")
		cmd.Stdin = strings.NewReader("sleep .3\nexit_with() { return 8; }; exit_with\n")
		s.begin(cmd).wants(8)
	})
}

// However much comes from a pipe is typed, no faster than it is read; of a line
// that is too long the terminal drops the rest, as termios(3) has it, unless the
// job has told it to take no lines.
func TestTerminalFromLargePipe(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		var lines strings.Builder
		for i := range 300_000 {
			fmt.Fprintf(&lines, "line %d\n", i)
		}
		long := strings.Repeat("x", 100_000) + "\n"
		for name, c := range map[string]struct{ mode, reads, input, want string }{
			"lines":       {"-echo", "cat", lines.String(), lines.String()},
			"long":        {"-echo", "cat", "first\n" + long + "last\n", "first\n" + long[:4095] + "\nlast\n"},
			"raw":         {"raw -echo", fmt.Sprint("head -c ", lines.Len()), lines.String(), lines.String()},
			"long in raw": {"raw -echo", fmt.Sprint("head -c ", len(long)), long, long},
		} {
			dir := t.TempDir()
			s := newSeat(t)
			before := s.mode()
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := w.cmd("run", "-t", "--", "sh", "-c", "cd "+dir+"; stty "+c.mode+"; touch up; "+c.reads+" >got")
			cmd.Stdin = from
			p := s.begin(cmd)
			from.Close()
			exists(t, filepath.Join(dir, "up"))
			if _, err := io.WriteString(to, c.input); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			to.Close()
			p.wants(0)
			if got, _ := os.ReadFile(filepath.Join(dir, "got")); string(got) != c.want {
				t.Errorf("%s: %d bytes arrive, want %d", name, len(got), len(c.want))
			}
			if after := s.mode(); after != before {
				t.Errorf("%s: the mode is %+v, was %+v", name, after, before)
			}
		}
	})
}

// With --pipe too, a job gets a terminal where all streams are one.
func TestTerminalOrPipe(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		script := `test -t 0 -a -t 1 -a -t 2 && echo all; (exec 3<>/dev/tty) 2>/dev/null && echo controlled; true`
		s := newSeat(t)
		s.begin(w.cmd("run", "-t", "-P", "--", "sh", "-c", script)).wants(0)
		s.shows("all\r\ncontrolled\r\n")
		s = newSeat(t)
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := w.cmd("run", "-t", "-P", "--", "sh", "-c", script+"; echo end")
		cmd.Stdout = out
		s.begin(cmd).wants(0)
		if b, _ := os.ReadFile(out.Name()); string(b) != "end\n" {
			t.Errorf("with a file it was %q", b)
		}
		// Without it, a terminal is made for a file as well.
		a := w.want(0, "run", "-t", "--", "sh", "-c", script+"; stty size")
		if a.out != "all\r\ncontrolled\r\n24 80\r\n" {
			t.Errorf("of no terminal: %q", a.out)
		}
	})
}

// No byte is missing of a job that ends at once, however much it was.
func TestTerminalComplete(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		var want strings.Builder
		for i := range 20000 {
			fmt.Fprintf(&want, "%d\r\n", i+1)
		}
		for range 5 {
			if a := w.want(0, "run", "-t", "--", "seq", "20000"); a.out != want.String() {
				t.Fatalf("%d bytes, want %d", len(a.out), want.Len())
			}
			if a := w.want(3, "run", "-t", "--", "sh", "-c", "echo last; exit 3"); a.out != "last\r\n" {
				t.Fatalf("%q", a.out)
			}
		}
		// What is left behind, and closes the terminal meanwhile, ends nothing.
		a := w.want(0, "run", "-t", "--leftovers", "wait", "--", "sh", "-c", `
			exec 3>&1 </dev/null >/dev/null 2>&1 3>&-; sleep .2; echo again >/dev/tty`)
		if a.out != "again\r\n" {
			t.Errorf("after all were closed it said %q", a.out)
		}
	})
}

// A terminal that nobody reads from any more hangs up on the job, and the
// caller's is restored.
func TestTerminalReaderGone(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		s := newSeat(t)
		before := s.mode()
		r, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := w.cmd("run", "-t", "--", "sh", "-c", `trap "exit 11" HUP; while :; do echo y; sleep .01; done`)
		cmd.Stdout = wr
		p := s.begin(cmd)
		wr.Close()
		s.raw()
		r.Close()
		p.wants(11)
		if after := s.mode(); after != before {
			t.Errorf("the mode is %+v, was %+v", after, before)
		}
	})
}

// The end of the caller's terminal is that of the call, and of what ignores its SIGHUP.
// One that comes from somebody else is the job's alone.
func TestTerminalHungUp(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for _, option := range []string{"-t", "-P"} {
			if option == "-P" && w.isolation != verify.IsolationService {
				continue
			}
			s, up := newSeat(t), filepath.Join(t.TempDir(), "up")
			p := s.begin(w.cmd("run", "-u", "hung-up", option, "--grace", "300ms", "--", "sh", "-c", `trap "" HUP TERM; touch `+up+`; exec sleep 1113`))
			exists(t, up)
			alive(t, "sleep", "1113")
			p.signal(syscall.SIGHUP)
			select {
			case <-p.ended:
				t.Fatalf("SIGHUP ended it: %s", s.shown())
			case <-time.After(700 * time.Millisecond):
			}
			s.slave.Close()
			s.master.Close()
			p.wants(137)
			gone(t, 0, "sleep", "1113")
			w.report("status", "hung-up").has("reason=cancelled", "confirmed=true", "stop.by=signal")
		}
	})
}

// A job's terminal is its user's.
func TestTerminalOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("user: only root can run a job as another")
	}
	in(t, all, func(t *testing.T, w *ward) {
		s := newSeat(t)
		s.begin(w.cmd("run", "-t", "--uid", "nobody", "--", "sh", "-c", `t=$(tty); test -O $t && test -w $t && echo own >$t`)).wants(0)
		s.shows("own\r\n")
	})
}

// The keys that leave can be others, or none.
func TestTerminalDetachKeys(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		s := newSeat(t)
		p := s.begin(w.cmd("run", "-t", "--detach-keys", "none", "--", "cat", "-v"))
		s.raw()
		s.types("\x1d\x1d\x1d\r")
		s.shows("^]^]^]\r\n^]^]^]\r\n")
		s.types("\x04")
		p.wants(0)
		s = newSeat(t)
		p = s.begin(w.cmd("run", "-t", "--detach-keys", "^Pq", "--", "sh", "-c", `trap "" HUP; echo up; while :; do sleep .03; done`))
		s.shows("up\r\n")
		s.raw()
		s.types("\x10q")
		p.wants(143)
		s.shows(" was stopped: its terminal was left\r\n")
	})
}
