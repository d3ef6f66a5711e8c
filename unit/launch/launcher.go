package launch

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/store"
)

// Launcher starts jobs and finds them again. Close it.
type Launcher struct {
	cfg   Config
	store *store.Store
	host  hostIdentity
	// self is this process.
	self unit.Process

	// ctx ends with Close.
	ctx context.Context
	end context.CancelFunc

	mu    sync.Mutex
	conns map[seat]*connection
	// muteSince is when a manager last did not answer in time.
	muteSince map[seat]time.Time
	cgroups   *cgroup.Hierarchy
	// legacy is cgroup v1's, looked for where cgroups is nil.
	legacy *cgroup.Legacy
	// parent is where cgroups were made that nobody named a place for, and
	// parentAt when that was found.
	parent   *cgroup.Parent
	parentAt time.Time
	reapers  *keeper.Subreaper
	// guards are those that jobs share, by manager.
	guards map[unit.Manager]*sharedGuard
	// ending are guards of settled jobs whose scopes a manager is being told to stop.
	ending sync.WaitGroup
	// stopping has one for each unit that a manager is being told to stop.
	stopping chan struct{}
}

// mostStopping is how many units are told to stop at once. A manager hears one
// request after another, and what others want to know of those that have stopped
// comes behind them.
const mostStopping = 16

// Config is what a Launcher works with.
type Config struct {
	// StateDir is the absolute path of the directory for records.
	StateDir string
	// Getenv is os.Getenv or a stand-in.
	Getenv func(string) string
	// UID is the effective user id.
	UID int
	// Self is the absolute path of this program, which a unit may execute.
	Self string
}

// New opens the state directory, which the first job makes where it is missing. The
// error is a *store.DirError.
func New(cfg Config) (*Launcher, error) {
	s, err := store.Open(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	self := unit.Process{PID: os.Getpid()}
	self.StartTime, _ = keeper.StartTime(self.PID) // 0 is recognised by nobody
	ctx, end := context.WithCancel(context.Background())
	return &Launcher{
		cfg: cfg, store: s, host: readHost(), self: self, ctx: ctx, end: end,
		conns: map[seat]*connection{}, muteSince: map[seat]time.Time{},
		guards:   map[unit.Manager]*sharedGuard{},
		stopping: make(chan struct{}, mostStopping),
	}, nil
}

// MakeStateDir makes the state directory where it is missing, for who wants to know
// at once that it can be used. The error is a *store.DirError.
func (l *Launcher) MakeStateDir() error { return l.store.Make() }

// Close ends the connections to the managers, and services that it started and
// that still end with this process.
func (l *Launcher) Close() {
	l.ending.Wait()
	for _, g := range l.sharedGuards() {
		g.release(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
	l.leaveParent()
	for _, c := range l.conns {
		select {
		case <-c.done:
			if c.err == nil {
				c.client.Close()
			}
		default: // it sees the end by itself
		}
	}
	l.store.Close()
}

// hierarchy finds the cgroup2 mount once; nil where there is none, which
// leaves the manager's word, and the removal of a cgroup of version 1, as the only
// evidence.
func (l *Launcher) hierarchy() *cgroup.Hierarchy {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cgroups == nil {
		l.cgroups, _ = cgroup.FindHierarchy()
	}
	return l.cgroups
}

// legacyHierarchy finds where systemd has its units where there is no cgroup2 mount;
// nil where it has none, or that is none of ours to see.
func (l *Launcher) legacyHierarchy() *cgroup.Legacy {
	if l.hierarchy() != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.legacy == nil {
		l.legacy, _ = cgroup.FindLegacy()
	}
	return l.legacy
}

// parentTime is for how long a place for cgroups is taken to be good: this
// process can be moved to another, though nobody does that while it starts many.
const parentTime = time.Second

// findParent is the hierarchy's FindParent, not again for each of many jobs that
// are started at once.
func (l *Launcher) findParent(h *cgroup.Hierarchy, named string) (*cgroup.Parent, error) {
	if named != "" {
		return h.FindParent(named)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parent != nil && time.Since(l.parentAt) < parentTime {
		return l.parent, nil
	}
	p, err := h.FindParent("")
	if err != nil {
		return nil, err
	}
	l.leaveParent()
	l.parent, l.parentAt = p, time.Now()
	return p, nil
}

// leaveParent lets go of a place for cgroups, for who holds the lock.
func (l *Launcher) leaveParent() {
	if l.parent != nil {
		l.parent.Close()
		l.parent = nil
	}
}

// hostIdentity is where a record belongs.
type hostIdentity struct {
	machine, boot string
}

func readHost() hostIdentity {
	return hostIdentity{
		machine: firstLine("/etc/machine-id"),
		boot:    strings.ReplaceAll(firstLine("/proc/sys/kernel/random/boot_id"), "-", ""),
	}
}

func firstLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// runtimeDir is a directory of mode 0700, in memory where the system has one,
// for what a start hands over. The caller removes what it puts there.
func (l *Launcher) runtimeDir() (string, error) {
	for _, base := range l.runtimeBases() {
		dir := filepath.Join(base, "unitward")
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			continue
		}
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == l.cfg.UID {
			return dir, nil
		}
	}
	return "", &store.DirError{Dir: strings.Join(l.runtimeBases(), ", "), Err: os.ErrNotExist}
}

func (l *Launcher) runtimeBases() []string {
	if l.cfg.UID == 0 {
		return []string{"/run", l.cfg.StateDir}
	}
	bases := []string{"/run/user/" + strconv.Itoa(l.cfg.UID), l.cfg.StateDir}
	if d := l.cfg.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		bases = append([]string{d}, bases...)
	}
	return bases
}

// subreaper makes this process one, once: what is left of jobs whose reaper
// was killed comes to it.
func (l *Launcher) subreaper() (*keeper.Subreaper, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reapers == nil {
		s, err := keeper.NewSubreaper()
		if err != nil {
			return nil, err
		}
		l.reapers = s
	}
	return l.reapers, nil
}
