package serve

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// maxQueue is how many starts can wait, queueTime how long.
	maxQueue  = 1024
	queueTime = 30 * time.Second
	// maxStarting is how many starts are under way at once: a manager does one
	// after another, and more would only wait there, where they cannot be
	// aborted.
	maxStarting = 8
)

// admission bounds what runs at once: first come, first served.
type admission struct {
	most int

	mu      sync.Mutex
	running int
	queue   []chan struct{}
}

// enter waits for a place. The error is an *Error of kind admission, or that
// of ctx.
func (a *admission) enter(ctx context.Context) error {
	a.mu.Lock()
	if a.running < a.most && len(a.queue) == 0 {
		a.running++
		a.mu.Unlock()
		return nil
	}
	if len(a.queue) >= maxQueue {
		a.mu.Unlock()
		return a.refusal(fmt.Sprintf("%d starts wait already", maxQueue))
	}
	mine := make(chan struct{})
	a.queue = append(a.queue, mine)
	a.mu.Unlock()
	timer := time.NewTimer(queueTime)
	defer timer.Stop()
	var err error
	select {
	case <-mine:
		return nil
	case <-timer.C:
		err = a.refusal(fmt.Sprintf("it waited for %v", queueTime))
	case <-ctx.Done():
		err = ctx.Err()
	}
	a.mu.Lock()
	for i, c := range a.queue {
		if c == mine {
			a.queue = append(a.queue[:i], a.queue[i+1:]...)
			a.mu.Unlock()
			return err
		}
	}
	a.mu.Unlock()
	a.leave() // the place came at the same moment
	return err
}

func (a *admission) refusal(why string) error {
	return fail(CodeAdmission, KindAdmission, fmt.Sprintf("cannot start a job now: %d jobs of this server are not settled, which is as many as may be, and %s", a.most, why),
		"wait for jobs to settle, or stop some", "unitward serve --max-running allows for more")
}

// leave gives a place to the next.
func (a *admission) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) > 0 {
		close(a.queue[0])
		a.queue = a.queue[1:]
		return
	}
	a.running--
}
