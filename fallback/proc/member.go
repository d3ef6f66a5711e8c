package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

// maxCommand bounds a command line that is shown.
const maxCommand = 256

// Describe says what a process is, for a report; ok is false when it has
// ended: a zombie is no member of anything, since nothing of it can run.
func Describe(pid int) (m verify.Member, ok bool) {
	p, err := Root.Open(pid)
	if err != nil {
		return m, false
	}
	defer p.Close()
	s, err := p.Stat()
	if err != nil || s.Ended() {
		return m, false
	}
	return p.Member(s), true
}

// Member describes the process whose stat is s for a report.
func (p *Process) Member(s Stat) verify.Member {
	m := verify.Member{PID: s.PID, State: string(p.state(s)), Command: p.command(), AgeMS: age(s.StartTime), MemoryBytes: p.Resident()}
	if m.Command == "" {
		m.Command = "[" + s.Comm + "]"
	}
	if m.State == "D" {
		wchan, _ := p.read("wchan", maxCommand)
		m.Wchan = strings.Trim(string(wchan), "0")
	}
	return m
}

// state is that of another thread where the leading one has ended alone: the
// process is no zombie.
func (p *Process) state(s Stat) byte {
	if s.State != 'Z' || s.Ended() {
		return s.State
	}
	for _, tid := range p.threads() {
		b, err := p.read("task/"+strconv.Itoa(tid)+"/stat", maxStat)
		if err != nil {
			continue
		}
		if t, err := ParseStat(string(b)); err == nil && t.State != 'Z' {
			return t.State
		}
	}
	return '?'
}

func (p *Process) command() string {
	b, err := p.read("cmdline", maxCommand)
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(bytes.ReplaceAll(bytes.TrimRight(b, "\x00"), []byte{0}, []byte{' '}), []byte("?")))
}

// ticks is how many of them a second has in /proc (USER_HZ), on every machine
// that Go runs on.
const ticks = 100

// age is for how long a process runs that started so many ticks after the
// boot, in milliseconds.
func age(started uint64) int64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return max(now.Nano()/1e6-int64(started)*(1000/ticks), 0)
}

// Ticks is a number of clock ticks as a time.
func Ticks(n uint64) time.Duration { return time.Duration(n) * (time.Second / ticks) }

// Resident is the resident set in bytes (proc_pid_statm(5)); 0 when that is
// not to be had.
func (p *Process) Resident() int64 {
	b, err := p.read("statm", maxCommand)
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || pages < 0 {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
