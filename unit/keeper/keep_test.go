package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// keep is a keeper in a process of its own: it runs $JOB, says the reaper's
// and the main process's numbers, and ends as the job does. With a line on
// stdin it ends the job and says what refused.
func keep() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	open := func(variable string, flags int) *os.File {
		path := os.Getenv(variable)
		if path == "" {
			return nil
		}
		f, err := os.OpenFile(path, flags, 0o600)
		must(err)
		return f
	}
	s, err := NewSubreaper()
	must(err)
	c := shell(os.Getenv("JOB"))
	c.Stdout, c.scan = os.Stdout, os.Getenv("SCAN") != ""
	if hangup := os.Getenv("HANGUP"); hangup == "stay" || hangup == "finish" {
		c.OnHangup, c.Finishes = HangupStay, hangup == "finish"
	}
	c.Record = open("RECORD", os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	c.Cgroup = open("CGROUP", unix.O_DIRECTORY)
	if os.Getenv("REMOVE") != "" {
		var st unix.Stat_t
		must(unix.Fstat(int(c.Cgroup.Fd()), &st))
		c.CgroupHolder = open("REMOVE", unix.O_DIRECTORY)
		c.CgroupName, c.CgroupInode = filepath.Base(c.Cgroup.Name()), st.Ino
	}
	r, err := s.Fork(c)
	must(err)
	fmt.Println(r.PID(), r.MainPID())
	must(r.Execute(""))
	if os.Getenv("DIE") != "" {
		r.End()
		unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	go func() {
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err == nil {
			r.End()
			for len(r.Refused()) == 0 {
				time.Sleep(time.Millisecond)
			}
			fmt.Println(r.Refused())
		}
	}()
	<-r.Childless()
	os.Exit(r.Exit().Status.ExitStatus())
}

// kept is a keeper in another process.
type kept struct {
	cmd          *exec.Cmd
	in           io.WriteCloser
	out          *bufio.Reader
	reaper, main int
}

// keepOther starts one. This process is the subreaper of all that is left
// when it is gone.
func keepOther(t *testing.T, job string, env ...string) *kept {
	t.Helper()
	return keepIn(t, self("keep", ""), job, env...)
}

func keepIn(t *testing.T, cmd *exec.Cmd, job string, env ...string) *kept {
	t.Helper()
	cmd.Env = append(append(cmd.Env, "JOB="+job), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	subreaper(t)
	t.Cleanup(func() {
		// Whatever the test found: nothing is left of it.
		for deadline := time.Now().Add(patience); !noChildren() && time.Now().Before(deadline); {
			killChildren()
		}
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &kept{cmd: cmd, in: in, out: bufio.NewReader(out)}
}

// ready waits until the job was told to execute.
func (k *kept) ready(t *testing.T) *kept {
	t.Helper()
	line, err := k.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &k.reaper, &k.main); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return k
}

// says waits until the job has written a line.
func (k *kept) says(t *testing.T, want string) {
	t.Helper()
	if line, err := k.out.ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("the job said %q, %v; want %q", line, err, want)
	}
}

func (k *kept) kill(t *testing.T) {
	t.Helper()
	if err := k.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	k.cmd.Wait()
}

func killChildren() {
	children, _ := childrenOf(os.Getpid())
	for _, pid := range children {
		unix.Kill(pid, unix.SIGKILL)
	}
	reapChildren()
	time.Sleep(time.Millisecond)
}

func reapChildren() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil); pid <= 0 && err != unix.EINTR {
			return
		}
	}
}

// nothingLeft waits until this process has no child at all: every orphan of
// the keeper's job would be one.
func nothingLeft(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		reapChildren()
		if noChildren() {
			return
		}
		if time.Now().After(deadline) {
			left, _ := Descendants(os.Getpid())
			for _, p := range left {
				b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
				t.Logf("left: %s", b)
			}
			t.Fatalf("%d processes are left", len(left))
		}
	}
}

// Jobs that are hard to end. Each says "up" when it is complete.
var hardJobs = map[string]string{
	"plain":           `echo up; exec sleep 1000`,
	"pipeline":        `sleep 1000 | cat & sleep 1001 & echo up; wait`,
	"deaf":            `trap "" HUP INT TERM; echo up; while :; do sleep 1; done`,
	"stopped":         `echo up; kill -STOP $$`,
	"session":         `setsid sleep 1000 & setsid sh -c "sleep 1001 & sleep 1002" & echo up; wait`,
	"double fork":     `(setsid sh -c "(setsid sleep 1000 >/dev/null &)" &); echo up; sleep 1001`,
	"no mark":         `env -i setsid /bin/sh -c "(env -i setsid sleep 1000 >/dev/null &) >/dev/null"; echo up; exec env -i sleep 1001`,
	"main ended":      `setsid sleep 1000 >/dev/null & echo up; exit 3`,
	"stopped orphan":  `setsid sh -c 'kill -STOP $$; sleep 1000' & sleep 0.01; echo up; exit 3`,
	"storm":           `echo up; while :; do (sleep .01; setsid sleep 1000) & sleep .002; done`,
	"storm of orphan": `setsid sh -c 'while :; do (setsid sleep 1000 &) ; done' & echo up; exit 3`,
}

func TestKeeperKilled(t *testing.T) {
	for name, job := range hardJobs {
		for _, env := range []string{"SCAN=", "SCAN=1"} {
			t.Run(name+" "+env, func(t *testing.T) {
				record := t.TempDir() + "/record"
				k := keepOther(t, job, env, "RECORD="+record).ready(t)
				k.says(t, "up")
				if strings.Contains(name, "storm") {
					waitFor(t, func() bool { d, _ := Descendants(k.reaper); return len(d) > 10 })
				}
				k.kill(t)
				nothingLeft(t)
				w := recorded(t, record)
				want := unix.WaitStatus(unix.SIGKILL)
				if !w.Exit.Known || w.ChildlessAt.IsZero() || w.Exit.Status != 3<<8 && unix.WaitStatus(w.Exit.Status) != want {
					t.Errorf("the record is %+v", w)
				}
			})
		}
	}
}

func recorded(t *testing.T, file string) Recorded {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := ReadRecord(f)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A detached job outlives its keeper, and its exit is known.
func TestKeeperKilledDetached(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/go", 0o600); err != nil {
		t.Fatal(err)
	}
	k := keepOther(t, "echo up; read x <"+dir+"/go; setsid sleep 1000 >/dev/null & exit 7", "HANGUP=stay", "RECORD="+dir+"/record").ready(t)
	k.says(t, "up")
	k.kill(t)
	if err := os.WriteFile(dir+"/go", []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return recorded(t, dir+"/record").Exit.Known })
	w := recorded(t, dir+"/record")
	if w.Exit.Status.ExitStatus() != 7 || !w.ChildlessAt.IsZero() {
		t.Errorf("the record is %+v", w)
	}
	// Anybody can end it.
	if err := unix.Kill(k.reaper, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t)
	if w := recorded(t, dir+"/record"); w.ChildlessAt.IsZero() || w.Exit.Status.ExitStatus() != 7 {
		t.Errorf("the record is %+v", w)
	}
}

// One whose leftovers are to be ended is ended after its main process, whether
// that ends before its keeper or after it.
func TestKeeperKilledFinishes(t *testing.T) {
	for _, first := range []string{"keeper", "main"} {
		t.Run(first, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mkfifo(dir+"/go", 0o600); err != nil {
				t.Fatal(err)
			}
			k := keepOther(t, "echo up; read x <"+dir+"/go; setsid sleep 1000 >/dev/null & exit 7", "HANGUP=finish", "RECORD="+dir+"/record").ready(t)
			k.says(t, "up")
			if first == "keeper" {
				k.kill(t)
			}
			if noChildren() {
				t.Fatal("it ends with its keeper")
			}
			if err := os.WriteFile(dir+"/go", []byte("\n"), 0); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return recorded(t, dir+"/record").Exit.Known })
			if first == "main" {
				if w := recorded(t, dir+"/record"); !w.ChildlessAt.IsZero() {
					t.Errorf("what is left is its keeper's to end: %+v", w)
				}
				k.kill(t)
			}
			nothingLeft(t)
			if w := recorded(t, dir+"/record"); w.ChildlessAt.IsZero() || w.Exit.Status.ExitStatus() != 7 {
				t.Errorf("the record is %+v", w)
			}
		})
	}
}

// Output that nobody keeps any more is read all the same, once that is said.
func TestReaperDrains(t *testing.T) {
	s := subreaper(t)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := shell("head -c 300000 /dev/zero && exit 4") // more than a pipe holds
	c.Stdout, c.ReadOut = in, out
	r := started(t, s, c)
	in.Close()
	out.Close()
	select {
	case <-r.Exited():
		t.Errorf("it does not wait for its reader: %+v", r.Exit())
	case <-time.After(50 * time.Millisecond):
	}
	r.Drain()
	if e := ended(t, r); e.Status.ExitStatus() != 4 {
		t.Errorf("the exit is %+v", e)
	}
}

// What a keeper has said counts, also when it is killed right after.
func TestKeeperKilledAfterEnd(t *testing.T) {
	for range 30 {
		k := keepOther(t, "exec sleep 1000", "HANGUP=stay", "DIE=1").ready(t)
		k.cmd.Wait()
		nothingLeft(t)
	}
}

// The keeper is killed before, while and after its job is made.
func TestKeeperKilledAtRandom(t *testing.T) {
	for _, seed := range seeds(t, 150) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		names := []string{"plain", "pipeline", "session", "double fork", "no mark", "main ended", "storm", "storm of orphan"}
		name := names[rnd.IntN(len(names))]
		file := t.TempDir() + "/record"
		k := keepOther(t, hardJobs[name], "RECORD="+file)
		what := rnd.IntN(3)
		if what > 0 {
			k.ready(t)
		}
		time.Sleep(time.Duration(rnd.IntN(6000)) * time.Microsecond) // the moment is what is drawn
		if what == 2 {
			unix.Kill(k.main, unix.SIGKILL)
		}
		k.kill(t)
		nothingLeft(t)
		if what > 0 {
			if w := recorded(t, file); !w.Exit.Known || w.ChildlessAt.IsZero() {
				t.Errorf("seed %d, %s: the record is %+v", seed, name, w)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d, %s, %d", seed, name, what)
		}
	}
}

// seeds draws the seeds of a random test, or takes the one of
// UNITWARD_TEST_SEED.
func seeds(t *testing.T, n int) []uint64 {
	var one uint64
	if _, err := fmt.Sscan(os.Getenv("UNITWARD_TEST_SEED"), &one); err == nil {
		return []uint64{one}
	}
	first := uint64(time.Now().UnixNano())
	t.Logf("seeds from %d", first)
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	return out
}

// A keeper that says nothing does not hold up whoever waits for its answer.
func TestSpawnedKeeperIsSilent(t *testing.T) {
	control, pid, err := Spawn("/bin/sleep", []string{"sleep", "100"}, [3]*os.File{})
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	defer waitFor(t, func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	defer unix.Kill(pid, unix.SIGKILL)
	if err := control.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := control.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it reads %d bytes, %v", n, err)
	}
}
