package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// uglyRounds is how often each command is run in a bad place.
const uglyRounds = 15

// ugly measures single commands in bad places: with processors that others want
// as well, and with the records on a disk that others write to.
func (b *bench) ugly(units int) error {
	busy := fmt.Sprintf("%d processors busy", runtime.NumCPU())
	if err := b.uglyWith(fmt.Sprintf("ugly: %s, %d units", busy, units), spin); err != nil {
		return err
	}
	slow := fmt.Sprintf("ugly: records on a disk beside writers that sync, %d units", units)
	if b.disk == "" {
		b.rows = append(b.rows, row{Group: slow, Name: runService, Unit: "ms", Lacking: "no directory on a disk was named (-disk)"})
		return nil
	}
	onDisk := func() (func() error, error) { return writeAndSync(b.disk) }
	if err := b.uglyOn(b.disk, slow, onDisk); err != nil {
		return err
	}
	return b.uglyOn(b.disk, "ugly: both", func() (func() error, error) {
		stop, err := onDisk()
		if err != nil {
			return nil, err
		}
		end, err := spin()
		return func() error { return errors.Join(end(), stop()) }, err
	})
}

// uglyOn is uglyWith, with the records of all who keep any on the disk.
func (b *bench) uglyOn(disk, group string, trouble func() (func() error, error)) (err error) {
	const variable = "UNITWARD_STATE_DIR"
	was, dir := os.Getenv(variable), b.dir
	defer func() { err = errors.Join(err, os.Setenv(variable, was)) }()
	if b.dir, err = os.MkdirTemp(disk, "bench-"); err != nil {
		return err
	}
	defer func() { err, b.dir = errors.Join(err, os.RemoveAll(b.dir)), dir }()
	if err := os.Setenv(variable, filepath.Join(b.dir, "state")); err != nil {
		return err
	}
	return b.uglyWith(group, trouble)
}

// uglyWith runs the contest while something else is going on. What it gives
// back ends that.
func (b *bench) uglyWith(group string, trouble func() (func() error, error)) (err error) {
	r, err := newRuntimes(filepath.Join(b.dir, "ugly"), "true")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	own := b.ownCommands("true")
	entrants := []*entrant{own[0], own[1], own[2], other(ownStart, b.unitward, command(b.unitward, "version")),
		other(peerService, "systemd-run", command("systemd-run", b.manager, "--wait", "--pipe", "-q", "true")),
		other(peerScope, "systemd-run", command("systemd-run", b.manager, "--scope", "--collect", "-q", "true")),
		other(peerBare, b.self, command(b.self, "bare", b.manager)),
		other(peerCrun, "crun", func() error { return command(r.crun()...)() }),
	}
	for _, e := range entrants {
		for i := range e.against {
			e.against[i].AtMost = 0 // the targets are those of a machine that has time
		}
	}
	end, err := trouble()
	if err != nil {
		return err
	}
	err = contest(warmUp, uglyRounds, entrants)
	b.add(group, "ms", entrants)
	return errors.Join(err, end())
}

// spin keeps every processor busy, with processes of the same weight.
func spin() (end func() error, err error) {
	var all []*exec.Cmd
	end = func() error {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // by that signal
		}
		return nil
	}
	for range runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, end())
		}
		all = append(all, cmd)
	}
	return end, nil
}

// writers is how many write to the disk, and syncBytes how much at a time.
const (
	writers   = 2
	syncBytes = 4 << 20
)

// writeAndSync has the file system of a directory written to and synchronised
// all the time.
func writeAndSync(dir string) (end func() error, err error) {
	stop := make(chan struct{})
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for errs[i] == nil {
				select {
				case <-stop:
					return
				default:
					errs[i] = writeOnce(dir)
				}
			}
		})
	}
	return func() error {
		close(stop)
		wg.Wait()
		return errors.Join(errs...)
	}, nil
}

func writeOnce(dir string) error {
	f, err := os.CreateTemp(dir, "writer-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, syncBytes)); err != nil {
		return err
	}
	return f.Sync()
}
