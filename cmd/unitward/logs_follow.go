package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/launch"
)

// lastOutput is how long the streams of a settled job have to be closed. Who
// captures them may have the last of it in hand; one that was killed never
// closes them.
const lastOutput = 2 * time.Second

// follow prints what is there and what comes, until the job is settled and all
// of it was printed. An interrupt ends it with the status of its signal.
func (v *logView) follow(j *launch.Job) (status int, err error) {
	// The watch comes before the first look: nothing falls between.
	w, err := capture.NewWatch(v.dir)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	v.stop = make(chan struct{})
	if !signal.Ignored(unix.SIGINT) {
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, unix.SIGINT)
		defer signal.Stop(interrupts)
		running.Go(func() {
			select {
			case <-interrupts:
				signal.Stop(interrupts) // a second one ends the process, which may hang in a write
				close(v.stop)
			case <-ctx.Done():
			}
		})
	}
	changed := make(chan error, 1)
	running.Go(func() {
		for {
			err := w.Wait(ctx)
			select {
			case changed <- err:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	settled := make(chan error, 1)
	running.Go(func() {
		_, err := j.Wait(ctx, launch.FactSettled)
		settled <- err
	})
	hangup := make(chan struct{})
	if h, err := watchHangup(v.a.Out); err == nil {
		defer h.Close()
		running.Go(func() {
			if h.wait() {
				close(hangup)
			}
		})
	}

	over, late := false, (<-chan time.Time)(nil)
	for {
		moved, closed, err := v.showAll(false)
		if err != nil {
			return 0, err
		}
		if over && closed {
			return 0, nil
		}
		// A job that never stops writing is left by a signal as well.
		var idle chan struct{}
		if moved {
			idle = make(chan struct{})
			close(idle)
		}
		select {
		case <-v.stop:
			return exitSignal + int(unix.SIGINT), nil
		case <-hangup:
			return 0, nil
		case err := <-changed:
			if errors.Is(err, fs.ErrNotExist) {
				return 0, nil // the record was dropped, as only a settled job's is
			}
			if err != nil {
				return 0, err
			}
		case err := <-settled:
			if err != nil {
				return 0, err
			}
			over, settled = true, nil
			late = time.After(lastOutput)
		case <-late:
			_, _, err := v.showAll(true)
			return 0, err
		case <-idle:
		}
	}
}

// showAll prints what every stream has by now, and says whether there was
// anything, and whether all of it was printed and no more will come.
func (v *logView) showAll(final bool) (moved, closed bool, err error) {
	closed = true
	for _, s := range v.streams {
		m, err := v.show(s, final)
		if err != nil {
			return moved, false, err
		}
		moved, closed = moved || m, closed && s.closed
	}
	return moved, closed, nil
}
