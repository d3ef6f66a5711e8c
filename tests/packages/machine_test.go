package packages

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a condition. It is no expectation: a test
// that waits this long has failed.
const patience = 3 * time.Minute

func eventually(ok func() bool) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// stage is where the rig has put what a machine gets.
func stage(t *testing.T) string {
	t.Helper()
	if os.Getenv("UNITWARD_RIG") == "" {
		t.Skip("rig: needs a machine to install packages in; make test-rig has them")
	}
	if os.Geteuid() != 0 {
		t.Fatal("it runs as root, and becomes a user by itself")
	}
	return filepath.Dir(os.Getenv("UNITWARD_BIN"))
}

// user is who runs something in the machine.
type user struct {
	name string
	uid  uint32
	env  []string
}

var (
	root   = &user{"root", 0, []string{"HOME=/root", "USER=root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}}
	tester = &user{"tester", 1000, []string{"HOME=/home/tester", "USER=tester", "PATH=/usr/bin:/bin", "LANG=C.UTF-8",
		"XDG_RUNTIME_DIR=/run/user/1000", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus"}}
)

func (u *user) cmd(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = append([]string{"TERM=dumb", "DEBIAN_FRONTEND=noninteractive"}, u.env...), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.uid}}
	cmd.WaitDelay = patience
	return cmd
}

// do runs a command and returns its status and what it printed.
func (u *user) do(t *testing.T, argv ...string) (status int, out, errs string) {
	t.Helper()
	cmd := u.cmd(argv...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	// What hangs says where: a Go program prints its stacks.
	hang := time.AfterFunc(2*patience, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	err := cmd.Wait()
	if !hang.Stop() {
		all, _ := exec.Command("ps", "-eo", "pid,ppid,user,stat,wchan,args").Output()
		t.Errorf("%s hung\n%s\n%s", strings.Join(argv, " "), stderr.String(), all)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// want runs a command and wants its status.
func (u *user) want(t *testing.T, status int, argv ...string) string {
	t.Helper()
	got, out, errs := u.do(t, argv...)
	if got != status {
		t.Fatalf("%s, as %s: status %d, want %d\n%s%s", strings.Join(argv, " "), u.name, got, status, out, errs)
	}
	return out
}

// apt runs apt-get or dpkg, which say much.
func apt(t *testing.T, argv ...string) string {
	t.Helper()
	status, out, errs := root.do(t, argv...)
	if status != 0 {
		t.Fatalf("%s: status %d\n%s%s", strings.Join(argv, " "), status, out, errs)
	}
	return out + errs
}

// companions installs what shows manuals and completes options. The rig's roots
// leave documentation out, which is what is looked at here.
func companions(t *testing.T, dir string) {
	t.Helper()
	excludes, err := filepath.Glob("/etc/dpkg/dpkg.cfg.d/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range excludes {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var keep []string
		for line := range strings.Lines(string(b)) {
			if !strings.HasPrefix(line, "path-exclude") {
				keep = append(keep, line)
			}
		}
		if err := os.WriteFile(f, []byte(strings.Join(keep, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	debs := files2(t, filepath.Join(dir, "companions", "*.deb"))
	apt(t, append([]string{"apt-get", "install", "-y", "--no-install-recommends"}, debs...)...) // it knows in which order
}

func files2(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("nothing matches %s", pattern)
	}
	return found
}

// job is one that lives through an upgrade or a removal. It ends with 7 when
// its file appears.
type job struct {
	*user
	name   string
	file   string
	keeper int // 0 for a service
}

// live starts a job with these options.
func live(t *testing.T, u *user, name string, options ...string) *job {
	t.Helper()
	j := &job{user: u, name: name, file: "/tmp/end-" + u.name + "-" + name}
	os.Remove(j.file)
	argv := append([]string{"unitward", "start", "-u", name}, options...)
	u.want(t, 0, append(argv, "--", "sh", "-c", "while [ ! -e "+j.file+" ]; do sleep .1; done; exit 7")...)
	j.keeper = j.number(t, `"keeper":{"pid":`)
	return j
}

// record is where the job's record is.
func (j *job) record() string {
	if j.uid == 0 {
		return "/var/lib/unitward/jobs/" + j.name
	}
	return "/home/tester/.local/state/unitward/jobs/" + j.name
}

// number is the number behind a word of the record; 0 when it is not there.
func (j *job) number(t *testing.T, after string) int {
	t.Helper()
	b, err := os.ReadFile(j.record() + "/job.json")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), after)
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(strings.ReplaceAll(rest, "}", ","), ",")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("the record of %s has %s%s", j.name, after, digits)
	}
	return n
}

// runs wants the main process to be alive, and the keeper to be the one that
// was there from the start.
func (j *job) runs(t *testing.T) {
	t.Helper()
	pid := j.number(t, `"pid":`)
	if err := syscall.Kill(pid, 0); err != nil || pid == 0 {
		t.Errorf("job %s of %s: its main process %d: %v", j.name, j.user.name, pid, err)
	}
	if j.keeper == 0 {
		return
	}
	exe, err := os.Readlink("/proc/" + strconv.Itoa(j.keeper) + "/exe")
	if err != nil || !strings.HasPrefix(exe, "/usr/bin/unitward") {
		t.Errorf("job %s of %s: its keeper %d executes %q, %v", j.name, j.user.name, j.keeper, exe, err)
	}
}

// end lets the job end, with whatever program there is.
func (j *job) end(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(j.file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(j.file) })
}
