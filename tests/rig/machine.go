package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is real systemd as PID 1 of namespaces of its own.
type Machine struct {
	Suite  Suite
	Failed []string // units that failed at boot

	record
	guard    *exec.Cmd // nil when another process started it
	lifeline *os.File  // nil when the machine outlives this process
	console  *os.File  // what systemd prints; open, for the file goes with the machine
}

// bootTakes bounds how long a machine may take to come up.
const bootTakes = 60 * time.Second

// Start builds the suite's root if need be and boots a machine on it. With tied
// it ends with this process, however that ends.
func Start(ctx context.Context, s Suite, name string, tied bool) (*Machine, error) {
	if err := validName(name); err != nil {
		return nil, err
	}
	if err := checkHost(); err != nil {
		return nil, err
	}
	if err := sweepDead(); err != nil {
		return nil, err
	}
	if err := Build(ctx, s); err != nil {
		return nil, err
	}
	m := &Machine{Suite: s}
	if err := m.startGuard(name, tied); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bootTakes)
	defer cancel()
	if err := m.waitUp(ctx); err != nil {
		err = fmt.Errorf("cannot boot %s: %w", s, err)
		if console, _ := io.ReadAll(m.console); len(console) > 0 {
			err = fmt.Errorf("%w\n%s", err, lastLines(string(console), 20))
		}
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// checkHost says why no machine could run here.
func checkHost() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("cannot make namespaces: needs root")
	}
	_, err := cgroup2Mount()
	return err
}

// checkBuild says why no machine of any kind could be made here.
func checkBuild() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("cannot build a root file system: needs root")
	}
	return nil
}

func (m *Machine) startGuard(name string, tied bool) error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	m.guard = exec.Command("/proc/self/exe", guardVerb, m.Suite.Name, name, "free")
	m.guard.ExtraFiles = []*os.File{guardReady - 3: in}
	m.guard.Dir = "/"
	m.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if tied {
		m.guard.Args[4] = "tied"
		m.guard.Stderr = os.Stderr
		far, near, err := os.Pipe()
		if err != nil {
			return errors.Join(err, in.Close())
		}
		defer far.Close()
		m.guard.ExtraFiles = append(m.guard.ExtraFiles, far)
		m.lifeline = near
	}
	if err := m.guard.Start(); err != nil {
		return errors.Join(fmt.Errorf("cannot start the guard of %s: %w", name, err), in.Close())
	}
	in.Close()
	var msg ready
	if err := json.NewDecoder(out).Decode(&msg); err != nil {
		return errors.Join(fmt.Errorf("cannot start the guard of %s: it gave no answer: %w", name, err), m.Close())
	}
	if msg.Error != "" {
		return errors.Join(errors.New(msg.Error), m.Close())
	}
	m.record = msg.Record
	if m.console, err = os.Open(consolePath(name)); err != nil {
		return errors.Join(fmt.Errorf("cannot boot %s: %w", name, err), m.Close())
	}
	return nil
}

// waitUp returns when systemd and the user manager of tester are up.
func (m *Machine) waitUp(ctx context.Context) error {
	for _, wait := range []struct{ user, socket, manager string }{
		{"root", "run/systemd/private", "--system"},
		{"tester", "run/user/1000/bus", "--user"},
	} {
		for {
			if _, err := os.Stat(m.path(wait.socket)); err == nil {
				break
			}
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return fmt.Errorf("cannot find /%s in it: %w", wait.socket, err)
			}
			if !alive(m.Name) {
				return errors.New("its first process ended")
			}
		}
		var state string
		for state != "running" && state != "degraded" {
			out, _ := m.Output(ctx, wait.user, "systemctl", wait.manager, "is-system-running", "--wait")
			state = strings.TrimSpace(out)
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("its %s manager is %q: %w", wait.manager[2:], state, err)
			}
		}
		if state == "degraded" {
			out, _ := m.Output(ctx, wait.user, "systemctl", wait.manager, "list-units", "--failed", "--no-legend", "--plain")
			for line := range strings.Lines(out) {
				m.Failed = append(m.Failed, strings.Fields(line)[0])
			}
		}
	}
	return nil
}

// path is the host's way to a file of the machine. The links in it are resolved
// on the host, so it must not lead through an absolute one.
func (m *Machine) path(inside string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", m.Init), inside)
}

// Output runs a command and returns what it wrote to its standard output.
func (m *Machine) Output(ctx context.Context, user string, argv ...string) (string, error) {
	var out bytes.Buffer
	code, err := m.Run(ctx, Command{User: user, Argv: argv, Stdout: &out, Stderr: io.Discard})
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit status %d", argv[0], code)
	}
	return out.String(), err
}

// Close ends the machine and returns when its guard has proven that nothing of
// it is left.
func (m *Machine) Close() error {
	if m.lifeline != nil {
		m.lifeline.Close()
	} else if m.guard != nil {
		_ = m.guard.Process.Signal(unix.SIGTERM)
	}
	if m.guard == nil {
		return nil
	}
	m.console.Close()
	err := m.guard.Wait()
	m.guard = nil
	if m.Name == "" {
		return nil // the guard has told why it could not start
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot prove that nothing of %s is left: its guard: %w", m.Name, err), sweepDead())
	}
	return nil
}

// Find returns a machine that another process started.
func Find(name string) (*Machine, error) {
	if err := validName(name); err != nil {
		return nil, err
	}
	if !alive(name) {
		return nil, fmt.Errorf("cannot find the machine %s: it is not up", name)
	}
	r, err := readRecord(name)
	if err != nil {
		return nil, err
	}
	s, err := FindSuite(r.Suite)
	if err != nil {
		return nil, err
	}
	return &Machine{Suite: s, record: r}, nil
}

// Stop ends a machine that another process started, and looks for itself that
// nothing is left.
func Stop(ctx context.Context, name string) error {
	r, err := readRecord(name)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(r.Guard, 0)
	if err == nil {
		defer unix.Close(fd)
		if alive(name) { // so the descriptor is the guard's
			if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("cannot end the guard of %s: %w", name, err)
			}
		}
	}
	for end := time.Now().Add(initEnds + 15*time.Second); alive(name); {
		if time.Now().After(end) {
			return fmt.Errorf("cannot end the machine %s: its guard (pid %d) does not end", name, r.Guard)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	if _, err := os.Stat(machineDir(name)); err == nil {
		log, _ := os.ReadFile(guardLog(name))
		note("the guard of %s could not remove all of it: %s", name, bytes.TrimSpace(log))
	}
	return sweepDead()
}
