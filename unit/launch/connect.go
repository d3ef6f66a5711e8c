package launch

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

const (
	// openWait bounds how long Open waits for a manager. What needs one waits
	// for it again.
	openWait = 200 * time.Millisecond
	// lookWait bounds what a single look waits for a manager: to be reached,
	// and to answer.
	lookWait = time.Second
	// actWait is how long somebody who wants something done waits for a manager
	// to be reached. It is the time that connecting to two places may take.
	actWait = 10 * time.Second
	// silence is how long a manager that did not answer in time is left alone
	// by what only looks.
	silence = 10 * time.Second
)

// connection is a manager that is being connected to, once for all who wait
// for it: whoever gives up waiting loses nothing.
type connection struct {
	// done is closed when the attempt has ended, well or not.
	done   chan struct{}
	client *dbusclient.Client
	err    error
}

// seat is a manager, and where it is.
type seat struct {
	manager unit.Manager
	remote  unit.Remote
}

// here is a manager of this machine.
func here(m unit.Manager) seat { return seat{manager: m} }

// seatOf is where a job is to be, or was, started.
func seatOf(id *unit.Identity) seat { return seat{id.Manager, id.Remote()} }

// begin begins to connect to a manager, if nobody has. The caller holds no lock.
func (l *Launcher) begin(at seat) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[at]; c != nil {
		return c
	}
	c := &connection{done: make(chan struct{})}
	l.conns[at] = c
	go func() {
		defer close(c.done)
		c.client, c.err = dbusclient.Dial(l.ctx, at.manager, l.environment(at))
		if c.err == nil && l.ctx.Err() != nil {
			c.client.Close() // too late for Launcher.Close
		}
	}()
	runtime.Gosched() // on one processor it would else begin when somebody waits for it
	return c
}

// HeardAt is when a manager that this launcher is connected to was last heard of;
// zero for none.
func (l *Launcher) HeardAt() (last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		select {
		case <-c.done:
			if c.err == nil && c.client.HeardAt().After(last) {
				last = c.client.HeardAt()
			}
		default:
		}
	}
	return last
}

// absent reports whether an error of connecting says that no manager is there.
func absent(err error) bool {
	var none *unit.NoManagerError
	return errors.As(err, &none) && !none.Silent || dbusclient.Absent(err)
}

// client connects to a manager once. The error is a *unit.NoManagerError; a
// failure is forgotten when it was told, so that the next call looks again.
func (l *Launcher) client(ctx context.Context, at seat) (*dbusclient.Client, error) {
	c := l.begin(at)
	select {
	case <-c.done:
	default:
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, &unit.NoManagerError{Manager: at.manager, Remote: at.remote, Tried: []string{"it has not answered yet"}, Silent: true}
		}
	}
	if c.err == nil {
		return c.client, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[at] == c {
		delete(l.conns, at)
	}
	return nil, c.err
}

// silent reports whether a manager did not answer in time, a short time ago.
func (l *Launcher) silent(at seat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.muteSince[at]) < silence
}

// noteSilence remembers that a manager did not answer in time.
func (l *Launcher) noteSilence(at seat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muteSince[at] = time.Now()
}
