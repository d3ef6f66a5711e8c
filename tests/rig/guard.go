package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const guardVerb = "_guard"

// The descriptors that a driver gives to a guard.
const (
	guardReady    = 3 // takes the record as JSON, or an error
	guardLifeline = 4 // end of file when the driver is gone; absent when the machine outlives it
)

// ready is the guard's one message to the driver.
type ready struct {
	Record record `json:"record"`
	Error  string `json:"error,omitempty"`
}

// guardMain stays with one machine: it starts the machine's first process,
// which dies with it, and removes all that the machine made when that process
// ends, when it is told to (SIGTERM), or when its driver is gone.
func guardMain(args []string) error {
	suite, name, tied := args[0], args[1], args[2] == "tied"
	// Told to end by signals only: the terminal's are the driver's to judge.
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, unix.SIGTERM)
	signal.Ignore(unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	out := os.NewFile(guardReady, "ready")

	lock, err := claim(name)
	if err != nil {
		return tell(out, record{}, err)
	}
	defer lock.Close()
	g := &guard{suite: suite, name: name}
	if !tied {
		if err := g.logToFile(); err != nil {
			return errors.Join(tell(out, record{}, err), g.dismantle())
		}
	}
	if err := g.start(); err != nil {
		return errors.Join(tell(out, record{}, err), g.dismantle())
	}
	ended := make(chan struct{})
	go func() {
		_ = g.init.Wait()
		close(ended)
	}()
	g.ended = ended
	_ = tell(out, g.record, nil)
	gone := make(chan struct{})
	if tied {
		go func() {
			_, _ = os.NewFile(guardLifeline, "lifeline").Read(make([]byte, 1))
			close(gone)
		}()
	}
	select {
	case <-ends:
	case <-gone:
	case <-ended:
	}
	return g.dismantle()
}

// tell answers the driver. An error is the driver's to print, not the guard's.
func tell(out *os.File, r record, err error) error {
	msg := ready{Record: r}
	if err != nil {
		msg.Error = err.Error()
	}
	werr := json.NewEncoder(out).Encode(msg)
	return errors.Join(werr, out.Close())
}

type guard struct {
	suite, name string
	root        *os.File // locked shared: nobody rebuilds it meanwhile
	init        *exec.Cmd
	ended       <-chan struct{}
	record      record
}

func (g *guard) logToFile() error {
	f, err := os.OpenFile(guardLog(g.name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Dup3(int(f.Fd()), 2, 0)
}

func (g *guard) start() error {
	s, err := FindSuite(g.suite)
	if err != nil {
		return err
	}
	if g.root, err = os.OpenFile(s.Root()+".lock", os.O_RDONLY|os.O_CREATE, 0o644); err != nil {
		return fmt.Errorf("cannot lock the root file system of %s: %w", s.Name, err)
	}
	if err := unix.Flock(int(g.root.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return fmt.Errorf("cannot lock the root file system of %s: %w", s.Name, err)
	}
	mnt, err := cgroup2Mount()
	if err != nil {
		return err
	}
	// Written down before it is made: whoever finds this guard dead knows
	// exactly which cgroup was its.
	g.record = record{
		Name: g.name, Suite: g.suite, Guard: os.Getpid(), Since: time.Now(),
		Cgroup: cgroup(filepath.Join(mnt, "unitward-rig-"+g.name+"-"+uuid()[:8])),
	}
	if err := g.record.write(); err != nil {
		return err
	}
	if err := os.Mkdir(string(g.record.Cgroup), 0o755); err != nil {
		return fmt.Errorf("cannot make the machine's cgroup: %w", err)
	}
	door, err := g.record.Cgroup.door()
	if err != nil {
		return err
	}
	defer door.Close()
	console, err := os.Create(consolePath(g.name))
	if err != nil {
		return err
	}
	defer console.Close()
	begin, goPipe, err := os.Pipe()
	if err != nil {
		return err
	}
	defer begin.Close()
	defer goPipe.Close()
	g.init = exec.Command("/proc/self/exe", bootVerb, s.Root(), g.name)
	g.init.Stdout, g.init.Stderr = console, console
	g.init.ExtraFiles = []*os.File{bootGo - 3: begin, bootDoor - 3: door}
	g.init.Dir = "/"
	g.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
		Setsid:     true,
	}
	if err := g.init.Start(); err != nil {
		return fmt.Errorf("cannot make the machine's namespaces: %w", err)
	}
	g.record.Init = g.init.Process.Pid
	if err := g.record.write(); err != nil {
		return err
	}
	_, err = goPipe.Write([]byte{1})
	return err
}

// initEnds bounds how long the kernel may take to end a pid namespace.
const initEnds = 30 * time.Second

// dismantle ends the machine and proves that nothing of it is left.
func (g *guard) dismantle() error {
	if err := g.endInit(); err != nil {
		return err
	}
	return sweepRest(g.name, g.record.Cgroup)
}

func (g *guard) endInit() error {
	if g.init == nil || g.init.Process == nil {
		return nil
	}
	_ = g.init.Process.Kill() // by pidfd; the whole pid namespace goes with it
	if g.ended == nil {
		return ignoreExit(g.init.Wait())
	}
	select {
	case <-g.ended:
		return nil
	case <-time.After(initEnds):
		return fmt.Errorf("cannot end the machine %s: its first process (pid %d) still lives %s after SIGKILL; processes in its cgroup: %v",
			g.name, g.init.Process.Pid, initEnds, g.record.Cgroup.members())
	}
}

// ignoreExit leaves the errors that are not just how a process ended.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// sweepRest removes what outlives a machine's processes, and says so loudly
// when something stays.
func sweepRest(name string, cg cgroup) error {
	if cg != "" {
		if err := cg.remove(); err != nil {
			return err
		}
	}
	left, err := mountsUnder(machineDir(name))
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("cannot remove the machine %s: mounted in it: %s", name, strings.Join(left, ", "))
	}
	return erase(name)
}

// sweep removes what a machine left whose guard was killed.
func sweep(name string) error {
	r, err := readRecord(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // without a record it had made nothing yet
		return err
	}
	if r.Cgroup != "" {
		if _, err := os.Lstat(string(r.Cgroup)); err == nil {
			r.Cgroup.kill()
		}
	}
	return sweepRest(name, r.Cgroup)
}

// sweepDead sweeps every machine whose guard is dead.
func sweepDead() error {
	held, err := hold()
	if err != nil {
		return err
	}
	defer held.Close()
	names, err := machineNames()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if alive(name) {
			continue
		}
		if err := sweep(name); err != nil {
			errs = append(errs, err)
			continue
		}
		note("removed what was left of the machine %s", name)
	}
	return errors.Join(errs...)
}
