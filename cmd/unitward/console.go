package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/terminal"
)

// console stands between the caller's terminal, or what else its streams are,
// and that of a job. Its methods do nothing on a nil one.
type console struct {
	in, out *os.File
	// job is the job's terminal. It is a pseudo-terminal for one that this
	// process holds.
	job   terminal.End
	keys  *terminal.Keys
	raw   *terminal.Raw
	relay *terminal.Relay
}

// openConsole makes a terminal for a job, as large as the caller's. stdio are the
// job's streams.
func openConsole(s streams, keys *terminal.Keys) (c *console, stdio launch.Stdio, err error) {
	c = &console{in: s.In, out: s.Out, keys: keys}
	if c.raw, err = terminal.NewRaw(s.In, s.Out); err != nil {
		return nil, launch.Stdio{}, err
	}
	size, ok := terminal.SizeOf(s.Out, s.In, s.Err)
	if !ok {
		size = terminal.DefaultSize
	}
	pty, err := terminal.Open(size)
	if err != nil {
		return nil, launch.Stdio{}, err
	}
	c.job = pty
	return c, launch.Stdio{In: pty.Slave, Out: pty.Slave, Err: pty.Slave}, nil
}

// visitConsole stands between the caller and a terminal that another process
// holds.
func visitConsole(s streams, keys *terminal.Keys, job *terminal.Remote) (*console, error) {
	raw, err := terminal.NewRaw(s.In, s.Out)
	if err != nil {
		return nil, err
	}
	return &console{in: s.In, out: s.Out, job: job, keys: keys, raw: raw}, nil
}

// begin makes the caller's terminal raw and joins it to the job's, which runs.
func (c *console) begin() (err error) {
	if c == nil {
		return nil
	}
	err = c.raw.Enter()
	var rerr error
	c.relay, rerr = terminal.Begin(terminal.RelayConfig{End: c.job, In: c.in, Out: c.out, Keys: c.keys})
	if err == nil {
		err = rerr
	}
	return err
}

// left is closed when the user has typed the keys that leave the job.
func (c *console) left() <-chan struct{} {
	if c == nil || c.relay == nil {
		return nil
	}
	return c.relay.Left()
}

// ended is closed when the job's terminal has nothing more to show.
func (c *console) ended() <-chan struct{} {
	if c.relay == nil {
		return nil
	}
	return c.relay.Ended()
}

// resize passes the size of the caller's window on.
func (c *console) resize() {
	if c == nil {
		return
	}
	if size, ok := terminal.SizeOf(c.out, c.in); ok {
		_ = c.job.Resize(size) // it fails where the job was hung up on
	}
}

// heeds does what a signal to this process has to do with its terminal. It is
// false for one that is for the job.
func (c *console) heeds(n unix.Signal) bool {
	switch n {
	case unix.SIGWINCH:
		c.resize()
	case unix.SIGCONT:
		c.resume()
	case unix.SIGTSTP:
		c.suspend()
	default:
		return false
	}
	return true
}

// suspend stops this process with its terminal as it was, as a shell wants it.
// The job goes on, as one in the background; it returns when this process does.
func (c *console) suspend() {
	if c.relay != nil {
		c.relay.Pause()
	}
	c.raw.Leave()
	stopSelf()
	c.resume()
	if c.relay != nil {
		c.relay.Resume()
	}
}

// stopSelf stops this process, and returns when it goes on. The signal is for
// this very thread, which would else run on until another has heeded it.
func stopSelf() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}

// resume takes the terminal again, whose mode and size may be others by now.
func (c *console) resume() {
	_ = c.raw.Enter() // where it was hung up SIGHUP says so
	c.resize()
}

// end prints what is left of the job's output and restores the terminal. Who
// does not take the output is waited for until giveUp.
func (c *console) end(giveUp <-chan struct{}) {
	if c == nil {
		return
	}
	if c.relay != nil {
		c.relay.Finish(giveUp)
		c.relay = nil
	}
	c.close()
}

// close restores the terminal, and hangs up what is left of the job on its own.
func (c *console) close() {
	if c == nil {
		return
	}
	c.raw.Leave()
	_ = c.job.Close() // for the second time, mostly
}
