package launch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/unit/terminal"
	"github.com/unitward/unitward/verify"
)

// tendVerb makes this program the main process of a unit whose output is
// captured: see Tend.
const tendVerb = "_tend"

// drainWait is how long output is still taken once the main process has ended
// and other processes, which are about to be ended, hold the streams.
const drainWait = 100 * time.Millisecond

// tend is the main process of a service whose output is captured, or which it
// keeps running for as long as anything of the job is left. It takes the
// handover in file, starts the command under a reaper, keeps its output,
// writes its exit down, and ends as the command did, so that systemd says the
// same. It returns the status to exit with.
//
// A stop sends its signals to every process of the unit: what this one gets
// the command has got too, so it heeds none, but for what came before there was
// the command's process.
func tend(file string, getenv func(string) string) int {
	h, err := keeper.TakeHandover(file)
	if err != nil {
		fmt.Fprintf(os.Stderr, "unitward: cannot take over the job: %v\n", err)
		return statusNoRun
	}
	t := &tended{h: h, word: keeper.OpenStatus(h.Status), signals: catchTended()}
	if err := t.begin(); err != nil {
		return t.word.Failed(err)
	}
	return t.stay(getenv)
}

// tendingThreads are as many as can wait for the kernel at a time: for the reaper, for
// the disk with each stream, with what is written down and with a terminal's text, and
// to end the command; with the one that runs meanwhile.
const tendingThreads = 6

// tended is a command that this process tends.
type tended struct {
	h    *keeper.Handover
	word *keeper.Status
	// signals are those that this process has got.
	signals <-chan os.Signal
	entry   *store.Entry
	reaper  *keeper.Reaper
	// capture is nil where the output is not kept.
	capture *capture.Capture
	// holder is nil where the job has no terminal that is held.
	holder *terminal.Holder
	began  time.Time
}

func (t *tended) begin() (err error) {
	defer func() {
		if err != nil && t.reaper != nil {
			t.reaper.End()
		}
		if err != nil && t.holder != nil {
			t.holder.Close()
		}
	}()
	if t.entry, err = store.OpenEntry(t.h.JobDir); err != nil {
		return err
	}
	kept, err := t.entry.CreateKept()
	if err != nil {
		return err
	}
	defer kept.Close()
	c := t.h.Command()
	c.Record, c.Deaf = kept, true
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	var out *pipes
	if t.h.Output == "" || t.h.Output == unit.OutputCapture {
		if out, err = newPipes(); err != nil {
			return err
		}
		defer out.close()
		c.Stdout, c.Stderr = out.out[1], out.err[1]
	}
	if t.h.Window != nil {
		var slave *os.File
		if t.holder, slave, err = holdTerminal(t.entry, *t.h.Window, out); err != nil {
			return err
		}
		c.Stdin, c.Stdout, c.Stderr, c.Terminal = slave, slave, slave, true
	}
	subreaper, err := keeper.NewSubreaper()
	if err != nil {
		return err
	}
	if t.reaper, err = subreaper.Fork(c); err != nil {
		return err
	}
	for i := range c.Passed {
		unix.Close(3 + i) // it is the command's, and its other end waits for that to close it
	}
	leaveTended()
	if err := passEarly(t.signals, t.reaper.MainPID()); err != nil {
		return err
	}
	if out != nil {
		t.capture, err = out.capture(t.entry, t.h.OutputMax, capture.Policy(t.h.OnOutputMax), keeper.Rest)
	} else {
		var null *os.File
		if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
			err = leaveStreams(null) // they are the command's
			null.Close()
		}
	}
	if err != nil {
		return err
	}
	keeper.SpareThreads(tendingThreads)
	t.began = time.Now()
	// Said before the exec: what runs can be found.
	if err := t.word.Runs(t.reaper.MainPID()); err != nil {
		return err
	}
	return t.reaper.Execute("")
}

// stay keeps the output until there is none to come, and ends as the command
// did.
func (t *tended) stay(getenv func(string) string) int {
	t.word.Close()
	debug.SetGCPercent(keeperGCPercent)
	var limited <-chan struct{}
	if t.capture != nil {
		limited = t.capture.Exceeded()
	}
	// stopped is for when there is too much output, which is told once.
	stopped := func() bool {
		limited = nil
		if capture.Policy(t.h.OnOutputMax) != capture.PolicyStop {
			return false
		}
		go t.end()
		return true
	}
	var reason string
	for {
		select {
		case <-limited:
			if stopped() {
				reason = string(unit.ReasonOutputLimit)
			}
			continue
		case <-t.reaper.Exited():
		}
		break
	}
	exit := t.reaper.Exit()
	if reason == "" && t.h.Timeout > 0 && exit.At.Sub(t.began) >= t.h.Timeout {
		reason = "timeout"
	}
	t.note(exit, reason, getenv)
	for left := t.reaper.Childless(); t.h.Leftovers != unit.LeftoversKill; {
		select {
		case <-limited:
			stopped() // the record says why
			continue
		case <-left:
		}
		break
	}
	if t.holder != nil {
		t.holder.Finish()
	}
	if t.capture != nil {
		if t.h.Leftovers == unit.LeftoversKill {
			t.capture.Drain(drainWait)
		} else {
			t.capture.Drain(0)
		}
		<-t.capture.Ended()
	}
	if t.holder != nil {
		t.holder.Close()
	}
	t.leave()
	return endAs(exit.Status)
}

// leave goes without the reaper. systemd ends what is left in the unit, in its
// own time. What is left in another unit alone is not for us to wait for or to
// end, and a reaper that waits for it would hold up the end of this one.
func (t *tended) leave() {
	below, _ := keeper.Descendants(t.reaper.PID())
	if cgroup := ownCgroup(); cgroup != "" && len(below) > 0 && len(outside(t.reaper.PID(), cgroup)) == len(below) {
		reaper := keeper.Process{PID: t.reaper.PID()}
		var err error
		if reaper.StartTime, err = keeper.StartTime(reaper.PID); err == nil {
			_ = reaper.Signal(unix.SIGKILL) // else it is gone already
		}
		return
	}
	_ = t.reaper.Stay() // it fails where nothing is left
}

// end is the signal that stops the job, the grace, and KILL for every process of the
// command.
func (t *tended) end() {
	signal := cmp.Or(unix.Signal(t.h.KillSignal), unix.SIGTERM)
	t.step(signal)
	found, _ := keeper.Descendants(t.reaper.PID())
	for _, p := range found {
		_ = p.Signal(signal) // who is gone needs none
	}
	select {
	case <-t.reaper.Childless():
	case <-time.After(t.h.Grace):
		t.step(unix.SIGKILL)
		t.reaper.End()
	}
}

// step writes down what is about to be done because there was too much output.
// Where that cannot be, it is done all the same.
func (t *tended) step(signal unix.Signal) {
	_, _ = t.entry.Update(false, func(rec *unit.Record) {
		if rec.Sealed != nil || rec.Stop.RequestedAt != nil {
			return // somebody else ends it
		}
		by := byOutput
		rec.Stop.By = &by
		rec.Stop.Add(unit.Step{At: now(), Action: verify.SignalName(int(signal)), Detail: "by who keeps the output"})
	})
}

// note writes the exit down as systemd would say it to a recorder.
func (t *tended) note(e keeper.Exit, reason string, getenv func(string) string) {
	said := map[string]string{"INVOCATION_ID": getenv("INVOCATION_ID"), "SERVICE_RESULT": reason}
	if e.Known {
		said["EXIT_CODE"], said["EXIT_STATUS"] = exitWords(childInfo(e.Status))
	}
	// Should it fail, the reaper's own record and systemd still know.
	_ = t.entry.RecordExit(func(name string) string { return said[name] }, OwnerGone, ownUnit(), e.At)
}

// childInfo is a wait status as si_code and si_status tell it (waitid(2)).
func childInfo(s syscall.WaitStatus) (code, status int32) {
	switch {
	case s.Signaled() && s.CoreDump():
		return 3, int32(s.Signal()) // CLD_DUMPED
	case s.Signaled():
		return 2, int32(s.Signal()) // CLD_KILLED
	}
	return 1, int32(s.ExitStatus()) // CLD_EXITED
}

// endAs ends this process by the signal that ended another, or returns its
// code.
func endAs(s syscall.WaitStatus) int {
	if !s.Signaled() {
		return s.ExitStatus()
	}
	keeper.Die(s.Signal()) // a core would be none of the command's
	return 128 + int(s.Signal())
}

// leaveStreams puts null, which is /dev/null, in the place of this process's
// standard streams: a reader of them must not wait for it.
func leaveStreams(null *os.File) (err error) {
	for fd := range 3 {
		err = errors.Join(err, unix.Dup3(int(null.Fd()), fd, 0))
	}
	return err
}
