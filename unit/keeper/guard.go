package keeper

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// Guard is a process that ends when what it watches has ended. systemd stops
// a job that is bound to the scope which holds its guard, also when everything
// else of unitward was killed.
//
// It is a clone of this process without an exec, in the same memory, as
// vfork(2) makes it: it costs a tenth of a start of the program, and runs
// nothing but system calls, on a stack of its own. The caller itself stays
// in the cgroup it was called in, so that whoever may end that cgroup ends the
// caller, and with it the job.
type Guard struct {
	// PID is the guard's process.
	PID int
	// pipe is the end whose closing ends the guard; nil when it watches a
	// process or a cgroup. maker is then the end whose closing tells of ours, until Sent.
	pipe, maker *os.File
	// released is true from the first of them on, early when it had ended before.
	released, early bool
	// mem is the guard's memory, which is also ours, and area what stands in it;
	// nil once it was reaped. files is for who writes or clears a name there.
	mem   []byte
	area  *guardArea
	files sync.Mutex
}

// GuardSelf starts a guard that ends with this process, or at Close.
func GuardSelf() (*Guard, error) { return GuardConnection(-1) }

// GuardConnection is GuardSelf for a guard that keeps a descriptor open until it
// ends: a connection to a manager, which carries out what was asked for there only
// while it stands, and gives the guard its scope then. A negative one is none.
func GuardConnection(fd int) (*Guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make the guard's pipe: %w", err)
	}
	defer r.Close()
	g, err := cloneGuard(int(r.Fd()), -1, fd, true)
	if err != nil {
		w.Close()
		return nil, err
	}
	g.pipe = w
	return g, nil
}

// GuardProcess starts a guard that ends with the process pid, which need not
// be a child of ours. From Sent on it outlives its maker: whoever puts it into a
// scope has the scope end with the job. It fails with ESRCH when there is no such
// process.
func GuardProcess(pid int) (*Guard, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot watch process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make the guard's pipe: %w", err)
	}
	defer r.Close()
	g, err := cloneGuard(fd, int(r.Fd()), -1, false)
	if err != nil {
		w.Close()
		return nil, err
	}
	g.maker = w
	return g, nil
}

// GuardCgroup starts a guard that ends when a cgroup has no process left or is gone.
// events is the path of its cgroup.events file. Like one of GuardProcess it
// outlives its maker.
func GuardCgroup(events string) (*Guard, error) {
	g, err := GuardSelf()
	if err != nil {
		return nil, err
	}
	if err := g.Keep(events); err != nil {
		_ = g.Close()
		return nil, err
	}
	return g, nil
}

// Keep tells a guard of GuardSelf to outlive this process, and to end when a
// cgroup has no process left or is gone. events is the path of its
// cgroup.events file; with another file of it, of a cgroup v1, only its removal ends
// the guard.
func (g *Guard) Keep(events string) error {
	if g.pipe == nil || len(events) >= maxPath {
		return fmt.Errorf("cannot keep guard %d: it outlives its maker, or %q is too long", g.PID, events)
	}
	_, err := g.pipe.WriteString(events)
	if cerr := g.pipe.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("cannot keep guard %d: %w", g.PID, err)
	}
	g.pipe = nil
	return nil
}

// Expect tells the guard that at this moment a manager is asked to put it into
// scope, a unit's name. When what it watches ends before that has come about,
// the guard goes on until it has, at most for a minute, or for a few seconds
// unless Sent was called: a scope that is given a process which has just ended
// comes up empty, and stays (seen with systemd 247 and 252). The
// scope's name may have up to 256 bytes.
func (g *Guard) Expect(scope string) {
	g.area.expect(scope)
}

// Removes has a guard of GuardSelf remove files when this process ends, until forget is
// called. What cannot be noted, a very long name or one of very many, is left to who
// settles the job.
func (g *Guard) Removes(files ...string) (forget func()) {
	g.files.Lock()
	defer g.files.Unlock()
	var noted []*uint32
	for i := range len(guardArea{}.files) {
		if len(files) == 0 || g.area == nil {
			break
		}
		f := &g.area.files[i]
		if len(files[0]) >= len(f.name) {
			files = files[1:]
			continue
		}
		if atomic.LoadUint32(&f.noted) == 0 {
			f.name[copy(f.name[:], files[0])] = 0
			atomic.StoreUint32(&f.noted, 1)
			files, noted = files[1:], append(noted, &f.noted)
		}
	}
	return func() {
		g.files.Lock()
		defer g.files.Unlock()
		if g.area == nil {
			return
		}
		for _, n := range noted {
			atomic.StoreUint32(n, 0)
		}
	}
}

// Sent tells the guard that the manager was asked. Until then who asks may have
// been killed on the way, and then nobody ever does.
func (g *Guard) Sent() {
	atomic.StoreUint32(&g.area.sent, 1)
	g.part()
}

// part lets go of a guard that watches a process.
func (g *Guard) part() {
	if g.maker != nil {
		g.maker.Close()
	}
}

// Close ends a guard of GuardSelf and reaps it. Another, or one that was kept, is left
// alone: it outlives its maker on purpose, and is reaped where it has ended before this
// process. Nothing else is to be called after Close.
func (g *Guard) Close() error {
	if g.pipe == nil {
		go g.outlived()
		return nil
	}
	g.Release()
	return g.reap()
}

// outlived reaps a guard that is left to itself. The poller waits for it: there can be
// many, and each would have a thread.
func (g *Guard) outlived() {
	if start, err := StartTime(g.PID); err == nil {
		if ended, stop, err := Watch(unit.Process{PID: g.PID, StartTime: start}); err == nil {
			<-ended
			stop()
		}
	}
	_ = g.reap()
}

// Release tells a guard of GuardSelf to end, without waiting for it; Close
// waits. It can be called again.
func (g *Guard) Release() {
	if g.pipe != nil {
		g.leave()
		if g.area != nil {
			atomic.StoreUint32(&g.area.expects, 0)
		}
		g.pipe.Close()
	}
}

// Early reports, once Release, Close or Kill was called, whether the guard had ended by
// then: somebody has killed it, perhaps before a manager was given it.
func (g *Guard) Early() bool { return g.early }

// leave notes, the first time, whether the guard has ended already.
func (g *Guard) leave() {
	if !g.released {
		g.early, g.released = g.Ended(), true
	}
}

// Kill ends any guard at once and reaps it, for a start that failed.
func (g *Guard) Kill() error {
	if g.pipe != nil {
		return g.Close()
	}
	g.leave()
	g.part()
	if err := unix.Kill(g.PID, unix.SIGKILL); err != nil {
		return err
	}
	return g.reap()
}

// Ended reports whether a guard has ended that was not reaped. For one that was
// it is true as well.
func (g *Guard) Ended() bool {
	var info siginfo
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_WAITID, unix.P_PID, uintptr(g.PID), uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, 0, 0)
		if errno != unix.EINTR {
			return errno != 0 || info.pid != 0
		}
	}
}

func (g *Guard) reap() error {
	if err := own.reap(g.PID, func() error { _, err := unix.Wait4(g.PID, nil, 0, nil); return err }); err != nil {
		return err
	}
	g.files.Lock()
	defer g.files.Unlock()
	g.area = nil
	return unix.Munmap(g.mem) // nobody runs in it any more
}

// cloneGuard makes a child that waits for fd to become readable or hung up,
// and then exits.
//
// The child is in our memory and shares nothing else: no other process need
// copy a page of it, which after a fork was most of the cost. What it runs
// must not look for its goroutine, grow a stack or allocate, and no signal
// handler of Go's runtime may run in it: the signals are blocked beforehand,
// and the child never leaves guard.
func cloneGuard(fd, maker, holds int, keeps bool) (*Guard, error) {
	mem, err := unix.Mmap(-1, 0, int(unsafe.Sizeof(guardArea{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("cannot get memory for the guard: %w", err)
	}
	area := (*guardArea)(unsafe.Pointer(&mem[0]))
	area.fd, area.maker, area.holds, area.keeps = uintptr(fd), maker, holds, keeps
	top := (uintptr(unsafe.Pointer(&area.stack)) + unsafe.Sizeof(area.stack)) &^ 15
	entry := guard
	g := &Guard{mem: mem, area: area}
	err = own.add(func() (int, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		blocked, old := allSignals, sigset(0)
		syscall.ForkLock.Lock()
		defer syscall.ForkLock.Unlock()
		rawMask(&blocked, &old)
		pid := cloneOnto(unix.CLONE_VM|uintptr(unix.SIGCHLD), top, **(**uintptr)(unsafe.Pointer(&entry)), uintptr(unsafe.Pointer(area)))
		rawMask(&old, nil)
		if pid < 0 {
			return 0, syscall.Errno(-pid)
		}
		g.PID = int(pid)
		return g.PID, nil
	})
	if err != nil {
		_ = unix.Munmap(mem)
		return nil, fmt.Errorf("cannot clone the guard: %w", err)
	}
	return g, nil
}
