package launch

import (
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/verify"
)

// tellStreams adds to a report what is known of captured output. Streams that
// were closed by everybody are closed, whoever lives. silenced says that their reader
// had ended before they were looked at: one that has not seen their end was killed.
func (j *Job) tellStreams(rep *unit.Report, silenced bool) {
	dir, err := j.entry.OpenDir()
	if err != nil {
		return
	}
	defer dir.Close()
	out, outKept, outClosed := sizeOf(dir, capture.Stdout)
	errs, errKept, errClosed := sizeOf(dir, capture.Stderr)
	if out == nil || errs == nil {
		return
	}
	dropped := *out - outKept + *errs - errKept
	rep.Streams.StdoutBytes, rep.Streams.StderrBytes, rep.Streams.DroppedBytes = out, errs, &dropped
	switch {
	case outClosed && errClosed:
		rep.Streams.State = "closed"
	case silenced:
		rep.Streams.State = streamsLost
	}
}

// OutputLost is true where who kept the output of the job was killed: a stream that
// is not closed then never will be, and what came after its end is kept nowhere.
func (j *Job) OutputLost() bool {
	if j.rec().Output != unit.OutputCapture || j.rec().Keeper.PID == 0 || !Ended(j.rec().Keeper) {
		return false
	}
	// One that ends by itself has settled the job.
	rec, err := j.entry.Record()
	return err == nil && (rec.Sealed == nil || rec.Sealed.Streams.State == streamsLost)
}

// streamsLost is unit.StreamsFact's.
const streamsLost = "lost"

// streamsOf are a caller's streams as what is left of a job is compared with them;
// nil for a job that does not write there. Of a terminal that the job has opened
// anew nothing is known.
func streamsOf(s *unit.Spec, io Stdio) []unit.File {
	if s.Output != unit.OutputInherit || s.PTY {
		return nil
	}
	var all []unit.File
	for _, f := range []*os.File{io.Out, io.Err} {
		var st unix.Stat_t
		if f == nil || unix.Fstat(int(f.Fd()), &st) != nil {
			return nil
		}
		if is := (unit.File{Device: st.Dev, Inode: st.Ino}); !slices.Contains(all, is) {
			all = append(all, is)
		}
	}
	return all
}

// released is true where all members are seen, and none has one of the job's
// streams open.
func (j *Job) released(members []verify.Member) bool {
	if len(j.rec().Streams) == 0 || len(members) == 0 || len(members) >= maxHolders {
		return false
	}
	for _, m := range members {
		p, err := proc.Root.Open(m.PID)
		if err != nil {
			return false // it is gone, and may have left another
		}
		held, err := p.Holds(j.rec().Streams)
		p.Close()
		if held || err != nil {
			return false
		}
	}
	return true
}

// maxHolders is below how many members a look describes at most: a list as long as
// that need not be whole.
const maxHolders = 64

// awaitOutput waits until the job's keeper, another process, has written down
// all output that there was. A keeper that cannot is not waited for.
func (j *Job) awaitOutput(ctx context.Context) {
	dir, err := j.entry.OpenDir()
	if err != nil {
		return
	}
	defer dir.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*drainWait)
	defer cancel()
	for pause := time.Millisecond; ; pause *= 2 {
		out, _, outClosed := sizeOf(dir, capture.Stdout)
		errs, _, errClosed := sizeOf(dir, capture.Stderr)
		if out == nil || errs == nil || outClosed && errClosed {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// sizeOf is how much a stream has had; nil when that is not known.
func sizeOf(dir *os.File, s capture.Stream) (size *int64, kept int64, closed bool) {
	r, err := capture.Open(dir, s)
	if err != nil {
		return nil, 0, false
	}
	defer r.Close()
	n, closed, err := r.Size()
	if err != nil {
		return nil, 0, false
	}
	return &n, r.Kept(), closed
}
