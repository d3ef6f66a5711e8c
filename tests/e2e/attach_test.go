package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit/terminal"
	"github.com/unitward/unitward/verify"
)

// echoes is a job that says what is typed, or how large its terminal is, and ends
// with the code that is typed. Its terminal echoes nothing.
const echoes = `stty -echo; echo up
	while read -r x; do
		case $x in exit*) exit ${x#exit};; size) echo size $(stty size);; *) echo "got $x"; esac
	done`

// sized waits until a job of echoes has a size, as who types at a seat is told.
func sized(s *seat, size string) {
	s.t.Helper()
	if !eventually(func() bool { s.types("size\r"); return strings.Contains(s.shown(), "size "+size+"\r\n") }) {
		s.t.Fatalf("the size does not become %s: %q", size, s.shown())
	}
}

// A job of start -t has a terminal that outlives who started it, and everybody who
// was at it.
func TestAttach(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		told := filepath.Join(w.state, "sized")
		a := w.want(0, "start", "-t", "-u", "held", "--", "bash", "-c", `
			for fd in 0 1 2; do test -t $fd || echo no $fd; done
			(exec 3<>/dev/tty) && echo controlled >/dev/tty
			echo size $(stty size); touch `+told+`
			`+echoes)
		if a.out != "held\n" {
			t.Errorf("start printed %q", a.out)
		}
		exists(t, told)
		s := newSeat(t)
		before := s.mode()
		p := s.begin(w.cmd("attach", "held"))
		s.shows("controlled\r\nsize 24 80\r\nup\r\n") // what was printed before
		sized(s, "33 99")                             // the window of who types
		s.types("hello\r")
		s.shows("got hello\r\n")
		if err := terminal.SetSize(s.master, terminal.Size{Rows: 50, Cols: 132}); err != nil {
			t.Fatal(err)
		}
		sized(s, "50 132")
		// The keys that leave it.
		s.types("\x1d\x1d\x1d")
		p.wants(0)
		s.shows("job held goes on\r\n")
		if after := s.mode(); after != before {
			t.Errorf("the mode is %+v, was %+v", after, before)
		}
		w.want(125, "release", "held")
		if got := w.want(0, "__complete", "attach", "").out; !strings.HasPrefix(got, "held\n:") {
			t.Errorf("completions are %q", got)
		}
		w.report("status", "held").has("state=running")
		if got := w.want(0, "status", "held").out; !strings.Contains(got, "\n  terminal  unitward attach held\n") {
			t.Errorf("status is %q", got)
		}
		// Whoever is at it ends: the job goes on.
		for _, n := range []syscall.Signal{syscall.SIGKILL, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
			s := newSeat(t)
			before := s.mode()
			p := s.begin(w.cmd("attach", "held"))
			s.shows("got hello\r\n")
			s.raw()
			p.signal(n)
			p.wants(128 + int(n))
			if after := s.mode(); n != syscall.SIGKILL && after != before {
				t.Errorf("%v: the mode is %+v, was %+v", n, after, before)
			}
		}
		// So it does when a terminal hangs up, and when nobody reads the output.
		gone := newSeat(t)
		p = gone.begin(w.cmd("attach", "held"))
		gone.shows("got hello\r\n")
		gone.master.Close()
		<-p.ended
		from, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s = newSeat(t)
		cmd := w.cmd("attach", "held")
		cmd.Stdout = to
		from.Close()
		p = s.begin(cmd)
		to.Close()
		p.wants(125)
		s.shows("its terminal can be shown no longer")
		if after := s.mode(); after != before {
			t.Errorf("without a reader the mode is %+v, was %+v", after, before)
		}
		w.report("status", "held").has("state=running")
		// It ends with somebody there.
		s = newSeat(t)
		p = s.begin(w.cmd("attach", "held"))
		s.shows("got hello\r\n")
		s.types("again\r")
		s.shows("got again\r\n")
		s.types("exit 7\r")
		p.wants(7)
		w.want(7, "wait", "held")
		w.report("verify", "held").has("confirmed=true", "exit.code=7", "tree.empty=true")
		if e := w.want(125, "attach", "held").err; !strings.Contains(e, "it has ended") {
			t.Errorf("attach to it says %q", e)
		}
		w.want(0, "release", "held")
	})
}

// Several are at a terminal, and one types.
func TestAttachSeveral(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-t", "-u", "shared", "--", "bash", "-c", echoes)
		first, second, reader := newSeat(t), newSeat(t), newSeat(t)
		writes := first.begin(w.cmd("attach", "shared"))
		first.shows("up\r\n")
		first.types("1\r")
		first.shows("got 1\r\n")
		watches := second.begin(w.cmd("attach", "shared"))
		second.shows("another types at job shared")
		reads := reader.begin(w.cmd("attach", "--read-only", "shared"))
		for _, s := range []*seat{second, reader} {
			s.shows("got 1\r\n")
			s.types("no\r")
		}
		first.types("2\r")
		for _, s := range []*seat{first, second, reader} {
			s.shows("got 2\r\n")
		}
		// The next one types when the first leaves, in his own window.
		if err := terminal.SetSize(second.master, terminal.Size{Rows: 20, Cols: 60}); err != nil {
			t.Fatal(err)
		}
		first.types("\x1d\x1d\x1d")
		writes.wants(0)
		sized(second, "20 60")
		second.types("3\r")
		second.shows("got 3\r\n")
		// Unless somebody takes it.
		writes = first.begin(w.cmd("attach", "--take", "shared"))
		sized(first, "33 99")
		first.types("4\r")
		second.shows("got 4\r\n")
		reader.types("\x1d\x1d\x1d")
		reads.wants(0)
		first.types("exit 3\r")
		writes.wants(3)
		watches.wants(3)
		for _, s := range []*seat{first, second, reader} {
			if strings.Contains(s.shown(), "got no") {
				t.Errorf("who does not type has typed: %q", s.shown())
			}
		}
	})
}

// Who reads nothing does not hold the job up, and has its end when he reads.
func TestAttachSlow(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-t", "-u", "fast", "--", "bash", "-c", echoes+"; :")
		s := newSeat(t)
		p := s.begin(w.cmd("attach", "fast"))
		s.shows("up\r\n")
		s.raw()
		p.signal(syscall.SIGSTOP)
		if !eventually(func() bool { return stateOf(p.cmd.Process.Pid) == "T" }) {
			t.Fatal("it is not stopped")
		}
		other := newSeat(t)
		q := other.begin(w.cmd("attach", "--take", "fast"))
		other.shows("up\r\n")
		for i := range 200 {
			other.types(fmt.Sprint(i, strings.Repeat("x", 2000), "\r"))
			other.shows(fmt.Sprint("got ", i, "xx"))
		}
		other.types("exit 4\r")
		q.wants(4)
		w.want(4, "wait", "--timeout", "15s", "fast")
		p.signal(syscall.SIGCONT)
		p.wants(4)
	})
}

// What is printed is kept too, up to the cap, whether anybody is there or not.
func TestAttachCaptured(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-t", "-u", "kept", "--output", "capture", "--", "sh", "-c", `echo one; echo two >&2; tty -s && echo three >/dev/tty; exit 5`)
		w.want(5, "wait", "kept")
		if got := w.want(0, "logs", "kept").out; got != "one\r\ntwo\r\nthree\r\n" {
			t.Errorf("kept is %q", got)
		}
		w.report("status", "kept").has("streams.state=closed", "streams.stdout_bytes=17", "streams.stderr_bytes=0", "streams.dropped_bytes=0")
		w.want(0, "start", "-t", "-u", "full", "--output", "capture", "--output-max", "64K", "--on-output-max", "stop", "--grace", "1s", "--", "sh", "-c", `while :; do echo 0123456789012345678901234567890123456789; done`)
		w.do("wait", "--timeout", "15s", "full")
		w.report("status", "full").has("state=settled", "reason=output-limit", "confirmed=true")
	})
}

// A stop ends what is at a terminal, also where nobody is.
func TestAttachStopped(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-t", "-u", "ended", "--", "sh", "-c", "sleep 1131 & echo up; sleep 1132")
		s := newSeat(t)
		p := s.begin(w.cmd("attach", "ended"))
		s.shows("up\r\n")
		w.want(0, "stop", "ended")
		p.wants(143)
		w.report("verify", "ended").has("confirmed=true", "exit.signal=TERM", "tree.empty=true")
		w.want(0, "start", "-t", "-u", "late", "--timeout", "500ms", "--", "sleep", "1133")
		w.want(124, "wait", "late")
	})
}

// Who holds the terminal of a service is paused with it, which attach says at once;
// others are not.
func TestAttachPaused(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-t", "-u", "still", "--", "bash", "-c", echoes)
		s := newSeat(t)
		p := s.begin(w.cmd("attach", "still"))
		s.shows("up\r\n")
		w.want(0, "pause", "still")
		s.types("\x1d\x1d\x1d")
		p.wants(0)
		if w.isolation == verify.IsolationService {
			if e := w.want(125, "attach", "still").err; !strings.Contains(e, "it is paused") || !strings.Contains(e, "unitward resume still") {
				t.Errorf("attach says %q", e)
			}
		} else {
			other := newSeat(t)
			q := other.begin(w.cmd("attach", "--read-only", "still"))
			other.shows("up\r\n")
			other.types("\x1d\x1d\x1d")
			q.wants(0)
		}
		w.want(0, "resume", "still")
		s = newSeat(t)
		p = s.begin(w.cmd("attach", "still"))
		s.shows("up\r\n")
		s.types("on\r")
		s.shows("got on\r\n")
		s.types("exit 0\r")
		p.wants(0)
	})
}

// The death of who holds a terminal hangs up on it.
func TestAttachHolderKilled(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		w.want(0, "start", "-t", "-u", "orphan", "--", "bash", "-c", `trap 'echo hung >`+filepath.Join(w.state, "hung")+`; exit 6' HUP; echo up; while :; do sleep .03; done`)
		s := newSeat(t)
		before := s.mode()
		p := s.begin(w.cmd("attach", "orphan"))
		s.shows("up\r\n")
		if err := syscall.Kill(w.recordOf("orphan").Keeper.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		exists(t, filepath.Join(w.state, "hung"))
		p.wants(6)
		if after := s.mode(); after != before {
			t.Errorf("the mode is %+v, was %+v", after, before)
		}
		w.report("verify", "--accept-weak", "orphan").has("confirmed=true", "exit.code=6")
	})
}

// What cannot be executed leaves nothing.
func TestAttachNotExecuted(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		script := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		w.want(127, "start", "-t", "-u", "never", "--", script)
		w.want(125, "status", "never")
		w.want(0, "start", "-t", "-u", "never", "--", "true")
		w.want(0, "wait", "never")
	})
}

// Without a terminal to take over a job's is an ordinary one, and who says what it
// is wins.
func TestAttachTerm(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for term, env := range map[string][]string{"vt220": nil, "xterm": {"TERM=xterm"}} {
			c := w.cmd("start", "-t", "-u", term, "--output", "capture", "--", "sh", "-c", `echo $TERM $(stty size)`)
			c.Env = append(slices.DeleteFunc(c.Env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") }), env...)
			if a := w.finish(c); a.code != 0 {
				t.Fatal(a)
			}
			w.want(0, "wait", term)
			if got := w.want(0, "logs", term).out; got != term+" 24 80\r\n" {
				t.Errorf("it is %q", got)
			}
		}
	})
}

// A terminal is its user's, in the isolations in which its keeper is not: in a
// service nobody could hold it.
func TestAttachOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("user: only root can start jobs of others")
	}
	in(t, all, func(t *testing.T, w *ward) {
		if w.isolation == verify.IsolationService {
			a := w.want(125, "start", "-t", "-u", "other", "--uid", "nobody", "--", "true")
			if !strings.Contains(a.err, "nobody can hold the terminal of a service of another user") || !strings.Contains(a.err, "run --pty and the other isolations can") {
				t.Errorf("it says %q", a.err)
			}
			w.want(125, "status", "other")
			return
		}
		w.want(0, "start", "-t", "-u", "other", "--uid", "nobody", "--output", "capture", "--", "sh", "-c", `id -un; stat -c %U $(tty); echo written >$(tty)`)
		w.want(0, "wait", "other")
		if got := w.want(0, "logs", "other").out; got != "nobody\r\nnobody\r\nwritten\r\n" {
			t.Errorf("it says %q", got)
		}
	})
}

func TestAttachRefused(t *testing.T) {
	in(t, []string{verify.IsolationGroup}, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "plain", "--", "sleep", "1141")
		for _, c := range []struct{ args, says string }{
			{"attach plain", "it has no terminal to come to"},
			{"attach none-such", "cannot find job none-such"},
			{"attach", "no job was named"},
			{"attach a b", "one job at a time"},
			{"attach --read-only --take plain", "cannot use --read-only and --take together"},
			{"attach --detach-keys ^ plain", "a key is missing after ^"},
			{"start -t --stdin null -- true", "the terminal is the job's input"},
			{"start -t --output journal -- true", "what is printed on the terminal is captured"},
			{"start -t --on-active 1h -- true", "cannot use --pty with a job that is started again and again"},
			{"start -t --detach-keys ^A -- true", "unknown flag"},
		} {
			if a := w.want(125, strings.Fields(c.args)...); !strings.Contains(a.err, c.says) {
				t.Errorf("%s says %q, want %q", c.args, a.err, c.says)
			}
		}
		// Its socket is nobody else's.
		w.want(0, "start", "-t", "-u", "own", "--", "sleep", "1142")
		var st unix.Stat_t
		socket := filepath.Join(w.state, "jobs", "own", terminal.SocketName)
		if err := unix.Lstat(socket, &st); err != nil || st.Mode != unix.S_IFSOCK|0o600 {
			t.Errorf("it has mode %o, %v", st.Mode, err)
		}
		w.want(0, "stop", "--grace", "1s", "own")
		if !eventually(func() bool { return errors.Is(unix.Lstat(socket, &st), unix.ENOENT) }) {
			t.Error("after the end it is there")
		}
	})
}

// From a user's shell in a real terminal: a job is left and come back to, from
// another terminal too, and each has what is on the screen.
func TestAttachInTmux(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		m := newTmux(t)
		m.shell("cd " + t.TempDir() + "; stty -a >before")
		m.shell(`uw() { ` + program(t) + " --state-dir " + w.state + ` "$@"; }`)
		m.shell(`uw start --isolation ` + w.isolation + ` -t -u shell -- env PS1='\#> ' bash --norc --noprofile -i`)
		m.types("clear; uw attach -q shell\n")
		m.shows("1>")
		m.types("echo $((20+3)); stty size\n")
		m.shows("\n23\n24 80\n2>")
		m.types("sleep 1151\n")
		alive(t, "sleep", "1151")
		m.do("send-keys", "C-c")
		m.shows("\n^C\n3>")
		m.do("send-keys", "C-]")
		m.do("send-keys", "C-]")
		m.do("send-keys", "C-]")
		m.prompts()
		m.shell("stty -a | cmp - before && clear")
		// Another terminal, of another size, has the same screen.
		n := newTmux(t)
		n.do("resize-window", "-x", "90", "-y", "20")
		n.types("clear; " + program(t) + " --state-dir " + w.state + " attach -q shell\n")
		n.shows("\n23\n24 80\n2> sleep 1151\n^C\n3>")
		n.types("clear; stty size\n")
		n.shows("20 90\n4>")
		// A program that has the whole screen is there when somebody comes.
		n.types(`printf '\033[?1049h\033[2J\033[3;5Hfull screen\033[1;1H'; read -r x; printf '\033[?1049l'; echo "<$x>"` + "\n")
		n.shows("\n    full screen")
		m.types("uw attach -q --take shell\n")
		m.shows("\n    full screen")
		m.types("keys\n")
		m.shows("<keys>\n5>")
		n.shows("<keys>\n5>")
		m.types("exit 9\n")
		m.prompts()
		m.types("echo status $?\n")
		m.shows("\nstatus 9\n" + fmt.Sprint(m.prompt+1) + "$")
	})
}
