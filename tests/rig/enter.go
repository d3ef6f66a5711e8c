package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const enterVerb = "_enter"

// The descriptors of a process that enters a machine.
const (
	enterSelf = 3 // this program, which cannot be seen from inside
	enterDoor = 4 // cgroup.procs of the cgroup to join
)

// Command is a command to run in a machine.
type Command struct {
	User   string   // root where empty
	Argv   []string // found by the PATH inside
	Dir    string   // the user's home where empty
	Env    []string // added to the user's
	Stdin  *os.File // /dev/null where nil
	Stdout io.Writer
	Stderr io.Writer
	// Terminal keeps the caller's session and with it its terminal. Otherwise
	// the command leads a session of its own: a process group from outside
	// reads as 0 inside.
	Terminal bool
	// Left takes what processes the command left behind that do not end by
	// themselves, a line each. They are ended where Left is given, and stay where
	// it is nil.
	Left *[]string
}

var entered atomic.Int64

// Run runs a command in the machine and returns its exit status; 128+n stands
// for signal n. It ends the command when the context does.
func (m *Machine) Run(ctx context.Context, c Command) (int, error) {
	cg, err := m.Cgroup.child(fmt.Sprintf("rig.exec/%d-%d", os.Getpid(), entered.Add(1)))
	if err != nil {
		return -1, err
	}
	code, err := m.runIn(ctx, c, cg)
	if c.Left != nil {
		if *c.Left = cg.left(); len(*c.Left) > 0 {
			cg.kill()
		}
		return code, errors.Join(err, cg.remove())
	}
	if populated, _ := cg.populated(); !populated {
		_ = unix.Rmdir(string(cg))
	}
	return code, err
}

func (m *Machine) runIn(ctx context.Context, c Command, cg cgroup) (int, error) {
	exe, err := self()
	if err != nil {
		return -1, err
	}
	defer exe.Close()
	door, err := cg.door()
	if err != nil {
		return -1, err
	}
	defer door.Close()
	std, err := c.streams()
	if err != nil {
		return -1, err
	}
	defer std.close()
	// The thread that makes the child enters the machine's namespaces. It is
	// never unlocked, so that it ends with its goroutine.
	type result struct {
		status syscall.WaitStatus
		err    error
	}
	started := make(chan *os.Process, 1)
	ended := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		p, err := m.fork(c, []*os.File{std.in, std.out, std.err, exe, door})
		started <- p
		if err != nil {
			ended <- result{err: err}
			return
		}
		st, err := p.Wait()
		if err != nil {
			ended <- result{err: err}
			return
		}
		ended <- result{status: st.Sys().(syscall.WaitStatus)}
	}()
	p := <-started
	std.closeFar()
	if p != nil {
		defer forward(p, c.Terminal)()
		defer context.AfterFunc(ctx, func() { _ = p.Kill() })()
	}
	r := <-ended
	if r.err != nil {
		return -1, fmt.Errorf("cannot enter %s: %w", m.Name, r.err)
	}
	if err := std.drain(); err != nil {
		return -1, err
	}
	if r.status.Signaled() {
		if err := context.Cause(ctx); err != nil {
			return -1, err
		}
		if !alive(m.Name) {
			return -1, fmt.Errorf("cannot tell how the command ended: the machine %s is gone", m.Name)
		}
		return 128 + int(r.status.Signal()), nil
	}
	return r.status.ExitStatus(), nil
}

// fork starts the command from a thread of its own: first the namespaces, but
// not the cgroup namespace, then the child, which joins the cgroup by itself.
func (m *Machine) fork(c Command, files []*os.File) (*os.Process, error) {
	fd, err := unix.PidfdOpen(m.Init, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	root, err := os.OpenFile(m.path("."), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if !alive(m.Name) { // so both descriptors are the machine's first process's
		return nil, errors.New("the machine is gone")
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, err
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNS|unix.CLONE_NEWPID|unix.CLONE_NEWUTS|unix.CLONE_NEWIPC|unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	// Where the driver runs in a chroot, the namespace's root is not the machine's.
	if err := errors.Join(root.Chdir(), unix.Chroot(".")); err != nil {
		return nil, err
	}
	user := c.User
	if user == "" {
		user = "root"
	}
	argv := append([]string{"rig", enterVerb, user, c.Dir}, c.Argv...)
	return os.StartProcess("/proc/self/fd/"+strconv.Itoa(enterSelf), argv, &os.ProcAttr{
		Env: append(userEnv(user), c.Env...), Files: files, Sys: &syscall.SysProcAttr{Setsid: !c.Terminal},
	})
}

// userEnv is the environment of a login of that user.
func userEnv(user string) []string {
	env := []string{"USER=" + user, "LOGNAME=" + user, "SHELL=/bin/bash", "LANG=C.UTF-8"}
	if term := os.Getenv("TERM"); term != "" {
		env = append(env, "TERM="+term)
	}
	if user == "root" {
		return append(env, "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	env = append(env, "HOME=/home/"+user, "PATH=/usr/local/bin:/usr/bin:/bin")
	if user == "tester" {
		env = append(env, "XDG_RUNTIME_DIR=/run/user/1000", "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus")
	}
	return env
}

// forward passes on the signals that ask this process to end. A terminal sends
// its own to both.
func forward(p *os.Process, terminal bool) (stop func()) {
	ch := make(chan os.Signal, 4)
	signals := []os.Signal{unix.SIGTERM, unix.SIGHUP}
	if !terminal {
		signals = append(signals, unix.SIGINT, unix.SIGQUIT)
	}
	signal.Notify(ch, signals...)
	go func() {
		for s := range ch {
			_ = p.Signal(s)
		}
	}()
	return func() {
		signal.Stop(ch)
		close(ch)
	}
}

// enterMain runs inside the machine's namespaces, and becomes the command.
func enterMain(args []string) int {
	err := enter(args[0], args[1])
	if err == nil {
		var path string
		if path, err = exec.LookPath(args[2]); err == nil {
			err = syscall.Exec(path, args[2:], os.Environ())
		}
		err = fmt.Errorf("cannot execute %s: %w", args[2], err)
	}
	complain(err)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return 127
	case errors.Is(err, os.ErrPermission):
		return 126
	}
	return 125
}

func enter(name, dir string) error {
	unix.CloseOnExec(enterSelf)
	if _, err := os.NewFile(enterDoor, "cgroup.procs").WriteString("0"); err != nil {
		return fmt.Errorf("cannot join the machine's cgroup: %w", err)
	}
	unix.CloseOnExec(enterDoor)
	ns, err := os.Open("/proc/1/ns/cgroup")
	if err != nil {
		return fmt.Errorf("cannot enter the cgroup namespace: %w", err)
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cannot enter the cgroup namespace: %w", err)
	}
	// A shell's background job ignores these two, and Go leaves that so. What is
	// caught is reset by execve.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT)
	unix.Umask(0o022)
	limitFiles()
	u, err := lookUser(name)
	if err != nil {
		return err
	}
	if err := errors.Join(syscall.Setgroups([]int{u.gid}), syscall.Setgid(u.gid), syscall.Setuid(u.uid)); err != nil {
		return fmt.Errorf("cannot become %s: %w", name, err)
	}
	// After the change of user, which resets it. The parent is outside and reads
	// as 0, so it cannot be compared; the guard of the machine ends what slips
	// through.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot tie the command to the caller: %w", err)
	}
	if dir == "" {
		dir = u.home
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("cannot enter the directory: %w", err)
	}
	return nil
}

// limitFiles sets the limits of open files that a login gets, or comes as close
// as it is allowed to; the caller's own are another machine's.
func limitFiles() {
	const soft, hard = 1024, 524288
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: soft, Max: hard}) == nil {
		return
	}
	var have syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have) == nil {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: min(soft, have.Max), Max: min(hard, have.Max)})
	}
}

type account struct {
	uid, gid int
	home     string
}

// lookUser reads the machine's own /etc/passwd.
func lookUser(name string) (account, error) {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return account{}, fmt.Errorf("cannot look up the user %s: %w", name, err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 7 || fields[0] != name {
			continue
		}
		uid, err1 := strconv.Atoi(fields[2])
		gid, err2 := strconv.Atoi(fields[3])
		return account{uid, gid, fields[5]}, errors.Join(err1, err2)
	}
	return account{}, fmt.Errorf("cannot look up the user %s: there is none", name)
}
