package group

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

const (
	helperVariable = "UNITWARD_GROUP_TEST"
	jobName        = "unitward-make-7f3a90c1"
	// nobody is a user id that no process of a test machine has.
	nobody = 65529
	// patience bounds every wait for a condition. It is no expectation: a test
	// that waits this long has failed.
	patience = time.Minute
	// leash is the descriptor whose end ends every process of a test.
	leash = 3
)

func init() {
	if what, _, _ := strings.Cut(os.Getenv(helperVariable), " "); what == "headless" {
		runtime.LockOSThread() // the main goroutine onto the leading thread
	}
}

// TestMain is also every process that a test needs.
func TestMain(m *testing.M) {
	what, args, isHelper := strings.Cut(os.Getenv(helperVariable), " ")
	if !isHelper {
		// Orphans come back to us: when they are reaped is not for the host's
		// init to say.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if err := helper(what, strings.Fields(args)); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func helper(what string, args []string) error {
	switch what {
	case "lead": // starts the children asked for, and waits for stdin to say how it ends
		for _, kind := range args {
			cmd, err := child(kind)
			if err != nil {
				return err
			}
			fmt.Println(kind, cmd.Process.Pid)
		}
		fmt.Println("ready 0")
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			wait()
		}
	case "undumpable":
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
		fmt.Println("ready 0")
		wait()
	case "block":
		fmt.Println("ready 0")
		wait()
	case "headless": // the leading thread ends, the process does not
		go func() {
			fmt.Println("ready 0")
			wait()
			os.Exit(0)
		}()
		runtime.Gosched()
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	case "look", "signal", "scan":
		return asked(what, args)
	case "reuse":
		return reuse()
	case "hidden":
		return hidden(args[0])
	case "namespaced":
		return namespaced(args[0])
	}
	return nil
}

// wait ends with the test.
func wait() { io.Copy(io.Discard, os.NewFile(leash, "leash")) }

// child is a process of a job: "member" of its group, "grouped" in one of its
// own, "session" in a session of its own, "cleaned" there without the
// environment, "undumpable" there, "headless" there.
func child(kind string) (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe")
	what := "block"
	switch kind {
	case "grouped":
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	case "undumpable", "headless":
		what = kind
		fallthrough
	case "session", "cleaned":
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	cmd.Env = append(os.Environ(), helperVariable+"="+what+" ")
	if kind == "cleaned" {
		cmd.Env = []string{helperVariable + "=block "}
	}
	cmd.ExtraFiles = []*os.File{os.NewFile(leash, "leash")}
	return cmd, begin(cmd)
}

// begin starts a helper and returns when it says that it is ready.
func begin(cmd *exec.Cmd) error {
	_, err := beginTelling(cmd)
	return err
}

func beginTelling(cmd *exec.Cmd) (map[string]int, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pids := map[string]int{}
	for s := bufio.NewScanner(out); s.Scan(); {
		word, n, _ := strings.Cut(s.Text(), " ")
		if word == "ready" {
			return pids, nil
		}
		if pids[word], err = strconv.Atoi(n); err != nil {
			return nil, fmt.Errorf("the helper said %q", s.Text())
		}
	}
	return nil, fmt.Errorf("the helper said nothing")
}

// job is a job of this rung: a leader and the children asked for.
type job struct {
	*Group
	cmd  *exec.Cmd
	pids map[string]int
	say  io.WriteCloser
	hold *os.File
}

// start is a job as another user where credential is not nil.
func start(t *testing.T, credential *syscall.Credential, kinds ...string) *job {
	t.Helper()
	j, err := launch(credential, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.end(t) })
	return j
}

func launch(credential *syscall.Credential, kinds ...string) (*job, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), helperVariable+"=lead "+strings.Join(kinds, " "), unit.JobVariable+"="+jobName)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: credential}
	cmd.ExtraFiles = []*os.File{r}
	say, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	pids, err := beginTelling(cmd)
	if err != nil {
		w.Close()
		return nil, err
	}
	g, err := Take(cmd.Process.Pid, "aa")
	return &job{Group: g, cmd: cmd, pids: pids, say: say, hold: w}, err
}

// leave ends the leader and leaves the rest.
func (j *job) leave(t *testing.T) {
	t.Helper()
	fmt.Fprintln(j.say)
	if err := j.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func (j *job) end(t *testing.T) {
	j.hold.Close() // all of them wait for that
	j.say.Close()
	j.cmd.Wait()
	for kind, pid := range j.pids {
		waitFor(t, kind, func() bool {
			j.reap()
			_, err := j.dir.Stat(pid)
			return err != nil
		})
	}
}

// reap reaps those of the job that lost their parent and ended.
func (j *job) reap() {
	for _, pid := range j.pids {
		unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// gone is true once the group and its session are.
func (j *job) gone() bool {
	j.reap()
	return j.Look().State == verify.GroupGone
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: the condition did not come true", what)
		}
	}
}

// ask runs a helper to its end, as another user where asked, and decodes what
// it printed.
func ask(t *testing.T, credential *syscall.Credential, flags uintptr, into any, what string, args ...any) {
	t.Helper()
	words := []string{what}
	for _, a := range args {
		b, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, string(b))
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.Env = append(os.Environ(), helperVariable+"="+strings.Join(words, " ")+" ")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Cloneflags: flags}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", what, err, out)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s said %q", what, out)
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("root: only root makes processes of another user, or a pid namespace")
	}
}

func asNobody() *syscall.Credential { return &syscall.Credential{Uid: nobody, Gid: nobody} }

// asked is a helper that looks as another user.
func asked(what string, args []string) error {
	var id Identity
	if err := json.Unmarshal([]byte(args[0]), &id); err != nil {
		return err
	}
	id.UID = os.Geteuid() // of the user who looks
	g := Recorded(id, "aa")
	var answer any
	switch what {
	case "look":
		answer = g.Look()
	case "scan":
		answer = g.Scan(jobName, patient())
	case "signal":
		answer = ""
		if err := g.Signal(unix.SIGTERM); err != nil {
			answer = err.Error()
		}
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// patient are bounds that a busy machine does not come to.
func patient() Bounds {
	b := DefaultBounds()
	b.Within = patience
	return b
}
