package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// StartTime is when a process started, in clock ticks since boot (field 22 of
// proc_pid_stat(5)): with the pid it tells a process from a later one of the
// same number. The error is fs.ErrNotExist when the process is gone.
func StartTime(pid int) (uint64, error) {
	var buf [1024]byte // some fifty numbers and a name of 64 bytes at most
	n, err := statText(pid, buf[:])
	if errors.Is(err, unix.ESRCH) { // it went between the open and the read
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, fmt.Errorf("cannot identify process %d: %w", pid, err)
	}
	return parseStartTime(string(buf[:n]))
}

// statText reads without the runtime's poller, which takes no file of /proc and
// costs more than the read: every start does it for two processes. The kernel
// gives all of it at once.
func statText(pid int, buf []byte) (n int, err error) {
	var fd int
	err = again(func() error {
		fd, err = unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	err = again(func() error { n, err = unix.Read(fd, buf); return err })
	return n, err
}

func parseStartTime(stat string) (uint64, error) {
	// The command's name may hold spaces and parentheses: fields are counted
	// from the last one. The first after it is field 3.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("cannot read a start time from %q", stat)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Executed reports whether a process is seen to have become its command. A
// fork of systemd is another systemd at first, and then has its name in
// parentheses. It is false for a process that is gone.
func Executed(pid int) bool {
	if pid == 0 {
		return false
	}
	parent, err := parentPID(pid)
	if err != nil {
		return false
	}
	own, err := os.ReadFile(procFile(pid, "cmdline"))
	if err != nil || len(own) == 0 {
		return false // a zombie
	}
	theirs, _ := os.ReadFile(procFile(parent, "cmdline"))
	if string(own) == string(theirs) {
		return false
	}
	// Last: the fork changes its name before its command line
	// (rename_process()).
	comm, err := os.ReadFile(procFile(pid, "comm"))
	return err == nil && !strings.HasPrefix(string(comm), "(")
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// parentPID is the parent's pid (field 4 of proc_pid_stat(5)).
func parentPID(pid int) (int, error) {
	b, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 2 {
		return 0, fmt.Errorf("cannot read a parent from %q", b)
	}
	return strconv.Atoi(fields[1])
}
