package terminal

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Relay carries keys from a user to a pseudo-terminal and its output back.
type Relay struct {
	cfg  RelayConfig
	raw  syscall.RawConn
	left chan struct{}
	hang sync.Once

	output sync.WaitGroup
	input  sync.WaitGroup
	// stop is a pipe that has a byte while the input is to rest.
	stop [2]*os.File
	// keys is true for an input that is a terminal.
	keys bool
	// rest are keys that were read and not yet passed on, within is true after
	// one that does not end a line.
	rest   []byte
	within bool
}

// RelayConfig is what a Relay joins.
type RelayConfig struct {
	// Master is the pseudo-terminal's, of Open. The relay closes it when nobody
	// can read its output any more: who has the slave is then hung up on. Slave
	// is the other end, which is only looked at.
	Master, Slave *os.File
	// In is where keys come from: a terminal, which should be raw, or anything
	// else that can be read. Out is where the output goes. Neither is closed, and
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
	r := &Relay{cfg: cfg, left: make(chan struct{}), keys: Is(cfg.In)}
	var err error
	if r.raw, err = cfg.Master.SyscallConn(); err != nil {
		return nil, err
	}
	if r.stop[0], r.stop[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	r.output.Go(r.print)
	r.input.Go(r.typed)
	return r, nil
}

// Left is closed once the user has typed Keys. Nothing is read from In then.
func (r *Relay) Left() <-chan struct{} { return r.left }

// Pause ends the reading of In, at once: what is typed from now on is for
// another program. Resume begins it anew.
func (r *Relay) Pause() {
	_, _ = r.stop[1].Write([]byte{'x'})                // an empty pipe has room
	_ = r.cfg.Master.SetWriteDeadline(time.Unix(1, 0)) // it fails when it was closed
	r.input.Wait()
	_ = r.cfg.Master.SetWriteDeadline(time.Time{})
	var b [1]byte
	_, _ = r.stop[0].Read(b[:])
}

// Resume ends a Pause.
func (r *Relay) Resume() { r.input.Go(r.typed) }

// Finish prints what is left of the output, all that was written before it was
// called, and then carries nothing more. It waits for who takes the output, but
// no longer than for giveUp, which may be nil.
func (r *Relay) Finish(giveUp <-chan struct{}) {
	r.Pause()
	_ = r.cfg.Master.SetReadDeadline(time.Unix(1, 0)) // it fails when it was closed
	done := make(chan struct{})
	go func() { r.output.Wait(); close(done) }()
	select {
	case <-done:
	case <-giveUp:
	}
	r.hangUp()
	r.stop[0].Close()
	r.stop[1].Close()
}

// hangUp closes the master: its slave is a terminal that is no more.
func (r *Relay) hangUp() {
	r.hang.Do(func() { r.cfg.Master.Close() })
}

// sweepMost is more than a pseudo-terminal holds: 8 KiB and the 4 KiB that its
// reader has before it (drivers/tty/pty.c, n_tty.c).
const sweepMost = 64 << 10

// print carries the output until Finish, or until nobody takes it.
func (r *Relay) print() {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.cfg.Master.Read(buf)
		if n > 0 && !r.write(buf[:n]) {
			r.hangUp()
			return
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.sweep(buf)
			return
		case err != nil:
			return
		}
	}
}

// sweep prints what is there now. A read that finds nothing has first awaited
// what the kernel had on its way to the master (n_tty_read()).
func (r *Relay) sweep(buf []byte) {
	for had := 0; had < sweepMost; {
		n := 0
		var err error
		cerr := r.raw.Control(func(fd uintptr) {
			for {
				if n, err = unix.Read(int(fd), buf); !errors.Is(err, unix.EINTR) {
					return
				}
			}
		})
		if cerr != nil || err != nil || n <= 0 || !r.write(buf[:n]) {
			return
		}
		had += n
	}
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
