package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// record is what the guard of a machine writes down about it. The machine lives
// exactly as long as the guard holds the lock next to it.
type record struct {
	Name   string    `json:"name"`
	Suite  string    `json:"suite"`
	Guard  int       `json:"guard"`
	Init   int       `json:"init"`
	Cgroup cgroup    `json:"cgroup"`
	Since  time.Time `json:"since"`
}

func validName(name string) error {
	if ok, _ := regexp.MatchString(`^[a-z0-9][a-z0-9-]{0,99}$`, name); !ok {
		return usageError(fmt.Sprintf("cannot use the name %q: small letters, digits and dashes", name))
	}
	return nil
}

func machinesDir() string            { return filepath.Join(stateDir(), "rigs") }
func machineDir(name string) string  { return filepath.Join(machinesDir(), name) }
func recordPath(name string) string  { return filepath.Join(machineDir(name), "state.json") }
func lockPath(name string) string    { return filepath.Join(machineDir(name), "lock") }
func consolePath(name string) string { return filepath.Join(machineDir(name), "console.log") }
func guardLog(name string) string    { return filepath.Join(machineDir(name), "guard.log") }

// mountPoint is where the machine's own mount namespace mounts its root; on the
// host it is an empty directory.
func mountPoint(name string) string { return filepath.Join(machineDir(name), "mnt") }

// hold keeps every other driver from making or sweeping machines until the
// returned file is closed.
func hold() (*os.File, error) {
	if err := os.MkdirAll(machinesDir(), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the state directory: %w", err)
	}
	return lockFile(context.Background(), machinesDir()+".lock") // never held for long
}

// claim makes the directory of a new machine and takes its lock.
func claim(name string) (*os.File, error) {
	held, err := hold()
	if err != nil {
		return nil, err
	}
	defer held.Close()
	if err := os.Mkdir(machineDir(name), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the machine %s: %w", name, err)
	}
	if err := os.Mkdir(mountPoint(name), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the machine %s: %w", name, err)
	}
	f, err := os.OpenFile(lockPath(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the machine %s: %w", name, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock the machine %s: %w", name, err)
	}
	return f, nil
}

// alive says whether a guard holds the machine's lock.
func alive(name string) bool {
	f, err := os.OpenFile(lockPath(name), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func (r record) write() error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := recordPath(r.Name) + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("cannot record the machine %s: %w", r.Name, err)
	}
	if err := os.Rename(tmp, recordPath(r.Name)); err != nil {
		return fmt.Errorf("cannot record the machine %s: %w", r.Name, err)
	}
	return nil
}

func readRecord(name string) (record, error) {
	var r record
	b, err := os.ReadFile(recordPath(name))
	if err != nil {
		return r, fmt.Errorf("cannot find the machine %s: %w", name, err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("cannot read the record of the machine %s: %w", name, err)
	}
	return r, nil
}

// machineNames lists the machines that have a directory, alive or not.
func machineNames() ([]string, error) {
	entries, err := os.ReadDir(machinesDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list the machines: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// erase removes a machine's directory. It removes known files one by one: a
// forgotten mount makes it fail rather than empty what is mounted.
func erase(name string) error {
	files := []string{recordPath(name), recordPath(name) + ".new", consolePath(name), guardLog(name), mountPoint(name), lockPath(name), machineDir(name)}
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the machine %s: %w", name, err)
		}
	}
	return nil
}
