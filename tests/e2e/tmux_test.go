package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// tmux is a real terminal, with a user's shell in it.
type tmux struct {
	t      testing.TB
	socket string
	prompt int // the number of the next
}

func newTmux(t testing.TB, env ...string) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if inRig() {
			t.Skip("rig: tmux could not be installed in the machine")
		}
		t.Skip("tmux: it is not installed")
	}
	m := &tmux{t, filepath.Join(t.TempDir(), "tmux"), 1}
	cmd := exec.Command("tmux", "-S", m.socket, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "bash", "--norc", "--noprofile")
	cmd.Env = append(append(os.Environ(), `PS1=\#$ `, "LC_ALL=C.UTF-8"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	server, err := strconv.Atoi(strings.TrimSpace(m.do("display-message", "-p", "#{pid}")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.do("kill-server") // which does not wait for its end
		if !eventually(func() bool { return syscall.Kill(server, 0) == syscall.ESRCH }) {
			t.Errorf("tmux, process %d, does not end", server)
		}
	})
	m.shows("1$")
	return m
}

func (m *tmux) do(args ...string) string {
	m.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", m.socket}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// types types a line, or with no newline at its end, keys.
func (m *tmux) types(text string) {
	m.t.Helper()
	line, enter := strings.CutSuffix(text, "\n")
	m.do("send-keys", "-l", "--", line)
	if enter {
		m.do("send-keys", "Enter")
	}
}

// shell types a line to the shell and waits for its next prompt.
func (m *tmux) shell(line string) {
	m.t.Helper()
	m.types(line + "\n")
	m.prompts()
}

// prompts waits for the shell's next prompt.
func (m *tmux) prompts() {
	m.t.Helper()
	m.prompt++
	want := fmt.Sprintf("%d$", m.prompt)
	if !eventually(func() bool { p := m.pane(); return p == want || strings.HasSuffix(p, "\n"+want) }) {
		m.t.Fatalf("the screen does not end with the prompt %q:\n%s", want, m.pane())
	}
}

// pane is what is on the screen, without blank lines at its end.
func (m *tmux) pane() string {
	m.t.Helper()
	return strings.TrimRight(m.do("capture-pane", "-p"), "\n")
}

// shows waits until the screen ends with a text.
func (m *tmux) shows(text string) {
	m.t.Helper()
	if !eventually(func() bool { return strings.HasSuffix(m.pane(), strings.TrimRight(text, " ")) }) {
		m.t.Fatalf("the screen does not end with %q:\n%s", text, m.pane())
	}
}

// In a real terminal, from a user's shell: what is typed, interrupted and
// resized reaches the job, and the shell finds its terminal as it was.
func TestTerminalInTmux(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		m := newTmux(t)
		m.shell("cd " + t.TempDir() + "; stty -a >before")
		caller := m.launches(w)
		m.types(`run -- sh -c 'stty size; read -r x; echo "<$x>"; exit 3'; echo status $?` + "\n")
		m.shows("\n24 80")
		m.types("typed\n")
		m.shows("\ntyped\n<typed>\nstatus 3\n4$")
		m.prompts()
		m.types(`run -- sh -c 'trap "echo interrupted; exit 4" INT; trap "stty size" WINCH; echo up; while :; do sleep .03; done'; echo status $?` + "\n")
		m.shows("\nup")
		m.do("resize-window", "-x", "90", "-y", "20")
		m.shows("\nup\n20 90")
		m.do("send-keys", "C-c")
		m.shows("\n20 90\n^Cinterrupted\nstatus 4\n5$")
		m.prompts()
		// The job is a shell: its job control is that of its own terminal.
		m.types("clear; run -- bash --norc --noprofile -i\n")
		m.shows("1$")
		m.types("sleep 1102\n")
		alive(t, "sleep", "1102")
		m.do("send-keys", "C-z")
		m.shows(" sleep 1102\n2$")
		if pane := m.pane(); !strings.Contains(pane, "\n^Z\n[1]+  Stopped ") {
			t.Errorf("the shell's job was not stopped:\n%s", pane)
		}
		m.types("fg\n")
		m.shows("\nsleep 1102")
		m.do("send-keys", "C-c")
		m.shows("\nsleep 1102\n^C\n3$")
		m.types("tty -s && echo inner\n")
		m.shows("\ninner\n4$")
		m.types("exit 5\n")
		m.prompts()
		m.types("echo status $?\n")
		m.shows("\nstatus 5\n7$")
		m.prompts()
		m.types("stty -a | sed 's/rows .*//' >after; sed 's/rows .*//' before | cmp - after && echo the same\n")
		m.shows("\nthe same\n8$")
		m.prompts()
		// A program that had the whole screen, and could not give it back.
		m.shell("clear; echo what was there")
		m.types(`run -- sh -c 'printf "\033[?1049h\033[?25l\033[?2004h\033[2J\033[3;5Hfull screen"; exec sleep 1103'` + "\n")
		m.shows("\n    full screen")
		if got := m.screen(); got != "1 0" {
			t.Errorf("the program has not made the screen its own: %s", got)
		}
		if err := syscall.Kill(alive(t, "sleep", "1103"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		m.prompts()
		m.types("echo status $?\n")
		m.shows("\nstatus 137\n11$")
		if pane, got := m.pane(), m.screen(); got != "0 1" || !strings.HasPrefix(pane, "what was there\n9$ run ") || strings.Contains(pane, "\n    full screen") {
			t.Errorf("the screen is left (alternate, cursor) %s:\n%s", got, pane)
		}
		m.prompts()
		// Who is killed can give nothing back; the shell does it with the mode.
		m.types("clear; run -- sleep 1104\n")
		alive(t, "sleep", "1104")
		if err := syscall.Kill(caller(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		m.prompts()
		m.types("clear; stty -a | sed 's/rows .*//' >after; sed 's/rows .*//' before | cmp - after && echo the same\n")
		m.shows("the same\n13$")
		gone(t, patience, "sleep", "1104")
	})
}

// launches makes run, in the shell, the one of a ward with a terminal, and returns
// what tells the process of the newest call.
func (m *tmux) launches(w *ward) func() int {
	m.t.Helper()
	file := filepath.Join(m.t.TempDir(), "caller")
	m.shell(`run() { sh -c 'echo $$ >` + file + `; exec "$@"' - ` + program(m.t) + " --state-dir " + w.state + " run --isolation " + w.isolation + ` -t "$@"; }`)
	return func() int {
		m.t.Helper()
		pid, err := strconv.Atoi(fileOf(m.t, file))
		if err != nil {
			m.t.Fatal(err)
		}
		return pid
	}
}

// screen says whether the alternate screen is shown, and whether the cursor is.
func (m *tmux) screen() string {
	m.t.Helper()
	return strings.TrimSpace(m.do("display-message", "-p", "#{alternate_on} #{cursor_flag}"))
}
