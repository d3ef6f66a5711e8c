package proc

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat is what unitward takes from /proc/PID/stat (proc_pid_stat(5)). It can
// be read of every process that can be seen, whoever owns it.
type Stat struct {
	PID int
	// Comm is the command's name; a process can set it to anything.
	Comm string
	// State is the letter of the leading thread: R, S, D, T, Z …
	State byte
	PPID  int
	// PGID and Session are 0 for kernel threads, and for a group or session
	// that was made outside of our pid namespace.
	PGID, Session int
	// Exiting is true from when the leading thread begins to end, which is before
	// it leaves its cgroup, and that is before State tells it.
	Exiting bool
	// Threads counts those that have not ended, and the leading one.
	Threads int
	// CPU is its user and system time and that of the children that it has
	// waited for, in clock ticks.
	CPU uint64
	// StartTime is in clock ticks since boot.
	StartTime uint64
	// EnvEnd is the address where the environment ends; 0 while a process
	// executes another program, and when we may not know.
	EnvEnd uint64
}

// Ended is true for a process of which nothing can run any more: a zombie, or
// one on the way to it. One whose leading thread alone has ended is alive.
func (s Stat) Ended() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// maxStat bounds the file; it has 52 numbers and a name of 64 bytes at most.
const maxStat = 4096

// Stat reads the process's stat. The error is fs.ErrNotExist when it is gone,
// and fs.ErrPermission where it is hidden (hidepid=1).
func (p *Process) Stat() (Stat, error) {
	b, err := p.read("stat", maxStat)
	if err != nil {
		return Stat{}, fmt.Errorf("cannot identify process %d: %w", p.PID, err)
	}
	return ParseStat(string(b))
}

// Stat reads the stat of the process that has the number pid now, with the
// errors of Open and Process.Stat.
func (d Dir) Stat(pid int) (Stat, error) {
	b, err := readAt(unix.AT_FDCWD, string(d)+"/"+strconv.Itoa(pid)+"/stat", maxStat)
	if err != nil {
		return Stat{}, fmt.Errorf("cannot identify process %d: %w", pid, err)
	}
	return ParseStat(string(b))
}

// Fields of proc_pid_stat(5), counted from the one after the name, which is
// field 3.
const (
	fieldPPID      = 4 - 3
	fieldPGID      = 5 - 3
	fieldSession   = 6 - 3
	fieldFlags     = 9 - 3
	fieldCPU       = 14 - 3 // utime, stime, cutime and cstime
	fieldThreads   = 20 - 3
	fieldStartTime = 22 - 3
	fieldEnvEnd    = 51 - 3
)

// flagExiting is PF_EXITING of the kernel's include/linux/sched.h.
const flagExiting = 0x4

// ParseStat takes the content of /proc/PID/stat.
func ParseStat(stat string) (Stat, error) {
	bad := func() (Stat, error) { return Stat{}, fmt.Errorf("cannot read %q as a process's stat", stat) }
	// The name can hold spaces, parentheses and newlines: it ends with the
	// last parenthesis, after which nothing but numbers follows.
	from, to := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if from < 0 || to < from {
		return bad()
	}
	fields := strings.Fields(stat[to+1:])
	if len(fields) <= fieldEnvEnd || len(fields[0]) != 1 {
		return bad()
	}
	s := Stat{Comm: stat[from+1 : to], State: fields[0][0]}
	ok := integer(&s.PID, strings.TrimSpace(stat[:from])) && s.PID > 0 &&
		integer(&s.PPID, fields[fieldPPID]) && integer(&s.PGID, fields[fieldPGID]) &&
		integer(&s.Session, fields[fieldSession]) && integer(&s.Threads, fields[fieldThreads]) &&
		number(&s.StartTime, fields[fieldStartTime]) && number(&s.EnvEnd, fields[fieldEnvEnd])
	var flags uint64
	ok = ok && number(&flags, fields[fieldFlags])
	s.Exiting = flags&flagExiting != 0
	for _, text := range fields[fieldCPU : fieldCPU+4] {
		var ticks uint64
		ok = ok && number(&ticks, text)
		s.CPU += ticks
	}
	if !ok {
		return bad()
	}
	return s, nil
}

func integer(to *int, text string) bool {
	n, err := strconv.Atoi(text)
	*to = n
	return err == nil
}

func number(to *uint64, text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	*to = n
	return err == nil
}
