package terminal

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Relay carries keys from a user to a job's terminal and its output back.
type Relay struct {
	cfg   RelayConfig
	left  chan struct{}
	ended chan struct{}
	input sync.WaitGroup
	// stop is a pipe that has a byte while the input is to rest.
	stop [2]*os.File
	// keys is true for an input that is a terminal, shows for an output that is
	// one, of which screen is for who prints until ended is closed.
	keys, shows bool
	screen      screen
	// rest are keys that were read and not yet passed on, within is true after
	// one that does not end a line.
	rest   []byte
	within bool
}

// RelayConfig is what a Relay joins.
type RelayConfig struct {
	// End is the job's. The relay closes it, at the latest by Finish, and when
	// nobody can read the output or type any more.
	End End
	// In is where keys come from: a terminal, which should be raw, or anything
	// else that can be read. Out is where the output goes; if that is a terminal,
	// Finish undoes what the output has made of its screen. Neither is closed, and
	// their modes stay as they are.
	In, Out *os.File
	// Keys leave the terminal; nil is no such keys.
	Keys *Keys
}

// Begin begins to carry. Call Finish.
func Begin(cfg RelayConfig) (*Relay, error) {
	if cfg.Keys == nil {
		cfg.Keys = &Keys{}
	}
	r := &Relay{cfg: cfg, left: make(chan struct{}), ended: make(chan struct{}), keys: Is(cfg.In), shows: Is(cfg.Out)}
	var err error
	if r.stop[0], r.stop[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	go func() {
		defer close(r.ended)
		Print(cfg.End, func(b []byte) bool {
			if r.shows {
				r.screen.add(b)
			}
			ok := r.write(b)
			if !ok {
				_ = cfg.End.Close() // nobody can read it any more
			}
			return ok
		})
	}()
	r.input.Go(r.typed)
	return r, nil
}

// Left is closed once the user has typed Keys. Nothing is read from In then.
func (r *Relay) Left() <-chan struct{} { return r.left }

// Ended is closed when no output will come any more.
func (r *Relay) Ended() <-chan struct{} { return r.ended }

// Pause ends the reading of In, at once: what is typed from now on is for
// another program. Resume begins it anew.
func (r *Relay) Pause() {
	_, _ = r.stop[1].Write([]byte{'x'}) // an empty pipe has room
	_ = r.cfg.End.SetWriteDeadline(past)
	r.input.Wait()
	_ = r.cfg.End.SetWriteDeadline(time.Time{})
	var b [1]byte
	_, _ = r.stop[0].Read(b[:])
}

// Resume ends a Pause.
func (r *Relay) Resume() { r.input.Go(r.typed) }

// Finish prints what is left of the output, all that was written before it was
// called, and then carries nothing more. It waits for who takes the output, but
// no longer than for giveUp, which may be nil. A terminal that has taken it all is
// left as it was found: the screen that is shown, the cursor, modes and colours.
func (r *Relay) Finish(giveUp <-chan struct{}) {
	r.Pause()
	Settle(r.cfg.End)
	select {
	case <-r.ended:
		r.write(r.screen.restore()) // a terminal that is gone needs nothing
	case <-giveUp:
	}
	_ = r.cfg.End.Close()
	r.stop[0].Close()
	r.stop[1].Close()
}

// write writes to Out, whatever its mode. It is false when nobody will ever read
// it. Not (*os.File).Write, which ends this process where standard output has no
// reader, before a terminal is itself again.
func (r *Relay) write(b []byte) (ok bool) {
	err := control(r.cfg.Out, func(fd int) error {
		for len(b) > 0 {
			n, err := unix.Write(fd, b)
			switch {
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				if err := writable(fd); err != nil {
					return err
				}
			case err != nil:
				return err
			default:
				b = b[n:]
			}
		}
		return nil
	})
	return err == nil
}
