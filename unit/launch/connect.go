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

// begin begins to connect to a manager, if nobody has. The caller holds no lock.
func (l *Launcher) begin(m unit.Manager) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[m]; c != nil {
		return c
	}
	c := &connection{done: make(chan struct{})}
	l.conns[m] = c
	go func() {
		defer close(c.done)
		c.client, c.err = dbusclient.Dial(l.ctx, m, dbusclient.Environment{Getenv: l.cfg.Getenv, UID: l.cfg.UID})
		if c.err == nil && l.ctx.Err() != nil {
			c.client.Close() // too late for Launcher.Close
		}
	}()
	runtime.Gosched() // on one processor it would else begin when somebody waits for it
	return c
}

// absent reports whether an error of connecting says that no manager is there.
func absent(err error) bool {
	var none *unit.NoManagerError
	return errors.As(err, &none) && !none.Silent || dbusclient.Absent(err)
}

// client connects to a manager once. The error is a *unit.NoManagerError; a
// failure is forgotten when it was told, so that the next call looks again.
func (l *Launcher) client(ctx context.Context, m unit.Manager) (*dbusclient.Client, error) {
	c := l.begin(m)
	select {
	case <-c.done:
	default:
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, &unit.NoManagerError{Manager: m, Tried: []string{"it has not answered yet"}, Silent: true}
		}
	}
	if c.err == nil {
		return c.client, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[m] == c {
		delete(l.conns, m)
	}
	return nil, c.err
}

// connected awaits what Connect began.
func (l *Launcher) connected(ctx context.Context, m unit.Manager) (*dbusclient.Client, error) {
	return l.client(ctx, m)
}

// silent reports whether a manager did not answer in time, a short time ago.
func (l *Launcher) silent(m unit.Manager) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.muteSince[m]) < silence
}

// noteSilence remembers that a manager did not answer in time.
func (l *Launcher) noteSilence(m unit.Manager) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muteSince[m] = time.Now()
}
