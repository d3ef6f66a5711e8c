package keeper

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper/nofile"
)

// The descriptors that a reaper gets, each at its own number. The first three
// are the main process's.
const (
	slotIn = iota
	slotOut
	slotErr
	// slotControl is the socket between keeper and reaper.
	slotControl
	// slotGate is the main process's socket to the keeper: it waits there
	// before its exec, and says there why that failed.
	slotGate
	slotCgroup
	slotProcs
	slotKill
	slotKeeperProcs
	slotRecord
	slotHolder
	// slotReadOut and slotReadErr are the ends to read from of the main process's
	// output: see Command.ReadOut.
	slotReadOut
	slotReadErr
	slots

	// firstSpare is above every slot: descriptors rest there on their way.
	firstSpare = 16
)

// cloneArgs is the kernel's struct clone_args (CLONE_ARGS_SIZE_VER2).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// siginfo is the part of the kernel's siginfo_t for SIGCHLD that is looked at.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

// orders is all that a reaper and its main process know. It lies outside of
// Go's heap and has no pointer that Go knows of: the two run no Go runtime
// which could move, collect or guard anything, and drop the heap they were
// born with. All addresses in it are of strings and arrays in the same
// mapping, ended by zero as the kernel wants them.
type orders struct {
	fds      [slots]int32 // as they are in the parent; -1: none
	onHangup Hangup
	finishes bool
	scan     bool
	deaf     bool
	terminal bool
	drains   bool // the output is read and dropped

	passed               uint32 // Command.Passed
	path, argv, env, dir uintptr
	// own and told are variables of the environment without their values, which
	// begin at ownAt and toldAt; 0 is no such variable.
	own           [2][variableSize]byte
	ownAt         [2]uint32
	told          [variableSize]byte
	toldAt        uint32
	umask         uint32
	rlimits       [len(unit.RlimitNames)]unit.Rlimit
	rlimitSet     uint32 // one bit for each limit
	hasNice       bool
	nice          int32
	hasCredential bool
	uid, gid      uint32
	groups        uintptr
	groupCount    uintptr
	cgroupInode   uint64
	cgroupName    [maxName + 1]byte // in the directory at slotHolder
	scope         scopeWait         // Command.Scope after a slash

	all   pages // the mapping
	stack pages // the children's
	args  pages // what only the main process needs
	// variables are those of the program, which are zero in a reaper.
	variables pages
	// gaps are where the heap was: anything there was mapped by another
	// thread just before the fork.
	gaps     [16]pages
	gapCount int

	// From here on: the working memory of the children.
	pid     int32 // the reaper
	main    int32
	sigfd   int32
	proc    int32 // /proc
	below   int32 // /proc/thread-self/children
	pipe    [2]int32
	clone   cloneArgs
	birth   birth
	poll    [4]unix.PollFd
	info    siginfo
	usage   unix.Rusage
	now     unix.Timespec
	limit   unit.Rlimit
	inode   unix.Stat_t
	action  sigaction
	mask    sigset
	status  int32
	refused int32 // the last process that was reported as refusing

	mainEnded, childless, ending, torn bool
	struck, spared, quiet, reports     int
	holds                              int // how many ticks the main process is still waited for

	due int64 // when everything is to end, by CLOCK_MONOTONIC in nanoseconds; 0 is never

	record record
	line   [128]byte
	filled uintptr
	gate   uintptr // the main process's slotGate, which it moves before its exec
	buf    [4096]byte
	stat   [512]byte
}

// variableSize is more than the name and the value of any variable that is set in a
// main process, and a power of two.
const variableSize = 64

// maxTold is how much Reaper.Execute can tell.
const maxTold = 32

// birth is what a main process says of itself before it waits at the gate.
type birth struct {
	here  uint32
	errno int32
}

// maxName is NAME_MAX.
const maxName = 255

// stackSize is more than what nosplit functions can use; that is under 1 KiB.
const stackSize = 8 << 10

// order lays a command out for its children. The mapping is the caller's to
// unmap once they are forked.
func (c *Command) order() (*orders, []byte, error) {
	if c.Path == "" || len(c.Argv) == 0 {
		return nil, nil, fmt.Errorf("cannot fork a command without a name: %w", unit.ErrUsage)
	}
	if len(c.OwnPID) > len(orders{}.own) || len(c.Told) >= variableSize-maxTold-1 {
		return nil, nil, fmt.Errorf("cannot fork a command with these variables of its own: %w", unit.ErrUsage)
	}
	page := uintptr(os.Getpagesize())
	up := func(n uintptr) uintptr { return (n + page - 1) &^ (page - 1) }
	word := unsafe.Sizeof(uintptr(0))
	texts := len(c.Path) + len(c.Dir) + 2
	for _, list := range [][]string{{c.Path, c.Dir}, c.Argv, c.Env} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return nil, nil, &BecomeError{"exec", syscall.EINVAL}
			}
			texts += len(s) + 1
		}
	}
	stack := up(unsafe.Sizeof(orders{}))
	head := stack + up(stackSize)
	size := head
	lists := uintptr(len(c.Argv)+len(c.Env)+len(c.OwnPID)+3) * word
	if c.Credential != nil {
		lists += uintptr(len(c.Credential.Groups)+2) * 4
	}
	size += up(lists + uintptr(texts))
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot get memory for the command: %w", err)
	}
	o := (*orders)(unsafe.Pointer(&mem[0]))
	base := uintptr(unsafe.Pointer(&mem[0]))
	o.all, o.stack, o.args = pages{base, base + size}, pages{base + stack, base + head}, pages{base + head, base + size}
	at := head + lists
	text := func(s string) uintptr {
		here := base + at
		at += uintptr(copy(mem[at:], s)) + 1
		return here
	}
	list := head
	entry := func(at uintptr) {
		*(*uintptr)(unsafe.Pointer(&mem[list])) = at
		list += word
	}
	vector := func(in []string) uintptr {
		here := base + list
		for _, s := range in {
			entry(text(s))
		}
		return here
	}
	o.path, o.argv = text(c.Path), vector(c.Argv)
	entry(0)
	o.env = vector(c.Env)
	for i, name := range c.OwnPID {
		o.ownAt[i] = uint32(copy(o.own[i][:], name+"="))
		entry(uintptr(unsafe.Pointer(&o.own[i])))
	}
	if c.Told != "" {
		o.toldAt = uint32(copy(o.told[:], c.Told+"="))
		entry(uintptr(unsafe.Pointer(&o.told)))
	}
	entry(0)
	if c.Dir != "" {
		o.dir = text(c.Dir)
	}
	if c.Credential != nil {
		o.hasCredential, o.uid, o.gid = true, c.Credential.UID, c.Credential.GID
		o.groups, o.groupCount = base+list, uintptr(len(c.Credential.Groups))
		for _, g := range c.Credential.Groups {
			*(*uint32)(unsafe.Pointer(&mem[list])) = g
			list += 4
		}
	}
	o.umask, o.scan, o.deaf, o.terminal = c.Umask, c.scan, c.Deaf, c.Terminal
	o.onHangup, o.finishes, o.passed = c.OnHangup, c.Finishes, uint32(c.Passed)
	if c.CgroupHolder != nil {
		o.cgroupInode = c.CgroupInode
		copy(o.cgroupName[:maxName], c.CgroupName)
	}
	if c.Scope != "" {
		o.scope.expect("/" + c.Scope)
	}
	if c.Nice != nil {
		o.hasNice, o.nice = true, int32(*c.Nice)
	}
	o.setRlimits(c.Rlimits)
	return o, mem, nil
}

func unmap(mem []byte) { _ = unix.Munmap(mem) }

func (o *orders) setRlimits(limits []unit.Rlimit) {
	for i, l := range limits[:min(len(limits), len(o.rlimits))] {
		o.rlimits[i] = l
		o.rlimitSet |= 1 << i
	}
	if len(limits) <= rlimitNofile {
		if soft, hard, ok := nofile.Original(); ok {
			o.rlimits[rlimitNofile] = unit.Rlimit{Soft: soft, Hard: hard}
			o.rlimitSet |= 1 << rlimitNofile
		}
	}
}

// setFiles puts the descriptors into the orders; control and gate are the
// children's ends.
func (o *orders) setFiles(c *Command, control, gate, null int) {
	for i, f := range [slots]*os.File{slotIn: c.Stdin, slotOut: c.Stdout, slotErr: c.Stderr, slotCgroup: c.Cgroup,
		slotProcs: c.CgroupProcs, slotKill: c.CgroupKill, slotKeeperProcs: c.KeeperProcs, slotRecord: c.Record, slotHolder: c.CgroupHolder,
		slotReadOut: c.ReadOut, slotReadErr: c.ReadErr} {
		switch {
		case f != nil:
			// Fd makes it a blocking one, as a job wants it.
			o.fds[i] = int32(f.Fd())
		case i <= slotErr:
			o.fds[i] = int32(null)
		default:
			o.fds[i] = -1
		}
	}
	o.fds[slotControl], o.fds[slotGate] = int32(control), int32(gate)
}

func (c *Command) keepAlive() {
	runtime.KeepAlive(c.Stdin)
	runtime.KeepAlive(c.Stdout)
	runtime.KeepAlive(c.Stderr)
	runtime.KeepAlive(c.Cgroup)
	runtime.KeepAlive(c.CgroupProcs)
	runtime.KeepAlive(c.CgroupKill)
	runtime.KeepAlive(c.KeeperProcs)
	runtime.KeepAlive(c.Record)
	runtime.KeepAlive(c.CgroupHolder)
	runtime.KeepAlive(c.ReadOut)
	runtime.KeepAlive(c.ReadErr)
}
