package launch

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/unitward/unitward/dbusclient"
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

	mu      sync.Mutex
	clients map[unit.Manager]*dbusclient.Client
	// refused is why a Connect failed, until a start was told.
	refused map[unit.Manager]error
	cgroups *cgroup.Hierarchy
	reapers *keeper.Subreaper
}

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

// New opens the state directory. The error is a *store.DirError.
func New(cfg Config) (*Launcher, error) {
	s, err := store.Open(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	self := unit.Process{PID: os.Getpid()}
	self.StartTime, _ = keeper.StartTime(self.PID) // 0 is recognised by nobody
	return &Launcher{cfg: cfg, store: s, host: readHost(), self: self, clients: map[unit.Manager]*dbusclient.Client{}, refused: map[unit.Manager]error{}}, nil
}

// Close ends the connections to the managers.
func (l *Launcher) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.clients {
		c.Close()
	}
	l.store.Close()
}

// client connects to a manager once. The error is a *unit.NoManagerError.
func (l *Launcher) client(ctx context.Context, m unit.Manager) (*dbusclient.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dial(ctx, m)
}

// dial is client for who holds the lock.
func (l *Launcher) dial(ctx context.Context, m unit.Manager) (*dbusclient.Client, error) {
	if c := l.clients[m]; c != nil {
		return c, nil
	}
	c, err := dbusclient.Dial(ctx, m, dbusclient.Environment{Getenv: l.cfg.Getenv, UID: l.cfg.UID})
	if err != nil {
		return nil, err
	}
	l.clients[m] = c
	return c, nil
}

// hierarchy finds the cgroup2 mount once; nil where there is none, which
// leaves the manager's word as the only evidence.
func (l *Launcher) hierarchy() *cgroup.Hierarchy {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cgroups == nil {
		l.cgroups, _ = cgroup.FindHierarchy()
	}
	return l.cgroups
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
