package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// runtimes are what runs jobs without a manager, with what they keep of their
// own for the time of the benchmark.
type runtimes struct {
	dir     string
	crunArg []string
	next    atomic.Int64
}

// newRuntimes makes a bundle that runs a command.
func newRuntimes(dir string, argv ...string) (*runtimes, error) {
	r := &runtimes{dir: dir, crunArg: []string{"--root", filepath.Join(dir, "crun"), "--cgroup-manager", "cgroupfs"}}
	if os.Geteuid() != 0 {
		r.crunArg[3] = "disabled" // no cgroup of his own to make others in
	}
	return r, writeBundle(filepath.Join(dir, "bundle"), argv...)
}

// id names a container that was not there before.
func (r *runtimes) id() string { return fmt.Sprintf("bench-%d-%d", os.Getpid(), r.next.Add(1)) }

func (r *runtimes) bundle() string { return filepath.Join(r.dir, "bundle") }

func (r *runtimes) crun() []string {
	argv := append([]string{"crun"}, r.crunArg...)
	return append(argv, "run", "--bundle", r.bundle(), r.id())
}

func (r *runtimes) runc() []string {
	return []string{administrators("runc"), "--root", filepath.Join(r.dir, "runc"), "run", "-b", r.bundle(), r.id()}
}

// bwrap makes the same namespaces as the bundle does.
func (r *runtimes) bwrap(argv ...string) []string {
	return append([]string{"bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/", "--proc", "/proc", "--"}, argv...)
}

// conmon runs the bundle as engines do it: conmon has crun create the
// container, is told of it, has it started, and stays until it has ended.
func (r *runtimes) conmon(id string) (*exec.Cmd, error) {
	crun, err := exec.LookPath("crun")
	if err != nil {
		return nil, errors.New(find("crun"))
	}
	at := filepath.Join(r.dir, id)
	exits, sockets := filepath.Join(r.dir, "exits"), filepath.Join(r.dir, "sockets")
	if err := errors.Join(os.MkdirAll(exits, 0o700), os.MkdirAll(sockets, 0o700)); err != nil {
		return nil, err
	}
	argv := []string{"--api-version", "1", "--sync", "-c", id, "-u", id, "-r", crun, "-b", r.bundle(), "-p", at + ".pid", "-l", "k8s-file:" + at + ".log", "--exit-dir", exits, "--socket-dir-path", sockets}
	for _, a := range r.crunArg {
		argv = append(argv, "--runtime-arg", a)
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command("conmon", argv...)
	cmd.Env = append(os.Environ(), "_OCI_SYNCPIPE=3")
	cmd.ExtraFiles = []*os.File{in}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	err = cmd.Start()
	in.Close()
	if err != nil {
		return nil, err
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && strings.Contains(said, "-1") {
		err = fmt.Errorf("conmon could not create a container: %s", strings.TrimSpace(said))
	}
	if err == nil {
		err = command(append(append([]string{crun}, r.crunArg...), "start", id)...)()
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("%w: %w: %s", err, cmd.Wait(), complaint.String())
	}
	return cmd, nil
}

// conmonOnce is a whole life.
func (r *runtimes) conmonOnce() error {
	id := r.id()
	cmd, err := r.conmon(id)
	if err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	return command(append(append([]string{"crun"}, r.crunArg...), "delete", "--force", id)...)()
}

// spooler is a task-spooler of the benchmark's own. Both are variables of tsp.
func spooler(dir string) error {
	return errors.Join(os.Setenv("TS_SOCKET", filepath.Join(dir, "tsp")), os.Setenv("TMPDIR", dir))
}

// administrators finds a program also where a user's PATH does not look.
func administrators(program string) string {
	if _, err := exec.LookPath(program); err != nil {
		for _, dir := range []string{"/usr/sbin", "/sbin"} {
			if path := filepath.Join(dir, program); find(path) == "" {
				return path
			}
		}
	}
	return program
}

// transient is the call that a job takes by itself, by busctl.
func transient(manager, name string) []string {
	return []string{"busctl", manager, "call", managerName, managerPath, managerName + ".Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))",
		name, "fail", "2", "CollectMode", "s", "inactive-or-failed", "ExecStart", "a(sasb)", "1", "/bin/true", "1", "true", "false", "0"}
}
