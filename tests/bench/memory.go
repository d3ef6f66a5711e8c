package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// mostDetached is what all that stays with a detached job may have for
	// itself, in MiB.
	mostDetached = 3
	// memoryJobs are how many jobs there are at once; a figure is the mean of
	// them.
	memoryJobs = 5
	// settle is how long they are left alone before they are measured.
	settle = time.Second
)

// nap is a job that lives, and that nobody else has: the benchmark ends whatever
// has these words.
func nap() []string { return []string{"sleep", fmt.Sprintf("1000.%d", os.Getpid())} }

// naps says whether a process is such a job. Of its name only the last part counts:
// systemd-run has it executed by its path.
func naps(pid int) bool {
	is := argv(pid)
	is[0] = filepath.Base(is[0])
	return slices.Equal(is, nap())
}

// holder is a command that stays with a job, or leaves something with it.
type holder struct {
	series
	// argv is the command for the i-th job.
	argv func(i int) []string
	// start is instead of argv, where more than one command is needed.
	start func(i int) (*exec.Cmd, error)
	// stop ends the i-th job; nil is that the command ends with its job.
	stop func(i int) []string
}

// memory measures the private memory of whatever stays with a waiting job.
func (b *bench) memory() error {
	r, err := newRuntimes(filepath.Join(b.dir, "memory"), nap()...)
	if err != nil {
		return err
	}
	holders := append(b.ownHolders(), b.otherHolders(r)...)
	var all []*series
	for _, h := range holders {
		all = append(all, &h.series)
		if h.lacking != "" {
			continue
		}
		figure, err := h.measure()
		switch {
		case err != nil && strings.HasPrefix(h.name, "unitward"):
			return fmt.Errorf("cannot measure %s: %w", h.name, err)
		case err != nil:
			h.lacks(err)
		default:
			h.figures = []float64{figure}
		}
	}
	b.rows = append(b.rows, rows(fmt.Sprintf("private memory for a job, mean of %d", memoryJobs), "MiB", all)...)
	return nil
}

func (b *bench) ownHolders() []*holder {
	var out []*holder
	for _, isolation := range []string{"service", "scope", "cgroup", "group"} {
		out = append(out, &holder{series: series{name: "unitward run (" + isolation + ")"},
			argv: func(int) []string {
				return append([]string{b.unitward, "run", "--isolation", isolation, "--"}, nap()...)
			}})
	}
	for _, isolation := range []string{"service", "scope", "cgroup", "group"} {
		name := func(i int) string { return fmt.Sprintf("bench-memory-%s-%d-%d", isolation, os.Getpid(), i) }
		out = append(out, &holder{series: series{name: "unitward start (" + isolation + "), output captured", against: []comparison{{AtMost: mostDetached}}},
			argv: func(i int) []string {
				return append([]string{b.unitward, "start", "-q", "-u", name(i), "--isolation", isolation, "--"}, nap()...)
			},
			stop: func(i int) []string { return []string{b.unitward, "stop", "-q", "--grace", "1s", name(i)} }})
	}
	return out
}

func (b *bench) otherHolders(r *runtimes) []*holder {
	fixed := func(argv ...string) func(int) []string { return func(int) []string { return argv } }
	crun := func(argv func() []string) func(int) []string { return func(int) []string { return argv() } }
	return []*holder{
		{series: series{name: peerService, lacking: find("systemd-run")}, argv: fixed(append([]string{"systemd-run", b.manager, "--wait", "--pipe", "-q"}, nap()...)...)},
		{series: series{name: peerCrun, lacking: find("crun")}, argv: crun(r.crun)},
		{series: series{name: "runc run", lacking: find(administrators("runc"))}, argv: crun(r.runc)},
		{series: series{name: "conmon + crun", lacking: find("conmon")}, start: func(int) (*exec.Cmd, error) { return r.conmon(r.id()) }},
		{series: series{name: "bubblewrap", lacking: find("bwrap")}, argv: fixed(r.bwrap(nap()...)...)},
	}
}

// measure starts the jobs, looks and ends them.
func (h *holder) measure() (figure float64, err error) {
	before := processes()
	var ends []func() error
	defer func() {
		if h.stop == nil {
			wake()
		}
		for _, end := range ends {
			err = errors.Join(err, end())
		}
	}()
	for i := range memoryJobs {
		end, err := h.hold(i)
		if err != nil {
			return 0, err
		}
		ends = append(ends, end)
	}
	time.Sleep(settle)
	sum, napping := 0, 0
	for pid := range processes() {
		if before[pid] {
			continue
		}
		if naps(pid) {
			napping++
			continue
		}
		kib, err := private(pid)
		switch {
		case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH):
			continue // another user's, or it has ended
		case err != nil:
			return 0, err
		}
		sum += kib
	}
	if napping != memoryJobs {
		return 0, fmt.Errorf("%d of %d jobs live", napping, memoryJobs)
	}
	return mib(sum) / memoryJobs, nil
}

// hold starts one job, and says how it is ended.
func (h *holder) hold(i int) (end func() error, err error) {
	if h.stop != nil {
		return command(h.stop(i)...), command(h.argv(i)...)()
	}
	var cmd *exec.Cmd
	if h.start != nil {
		cmd, err = h.start(i)
	} else {
		argv := h.argv(i)
		cmd = exec.Command(argv[0], argv[1:]...)
		err = cmd.Start()
	}
	return func() error {
		if err != nil {
			return nil
		}
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			return err
		}
		return nil // as the job, which was killed
	}, err
}

// wake ends the jobs that nothing else ends.
func wake() {
	for pid := range processes() {
		if naps(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
