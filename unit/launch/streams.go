package launch

import (
	"context"
	"os"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
)

// tellStreams adds to a report what is known of captured output. Streams that
// were closed by everybody are closed, whoever lives.
func (j *Job) tellStreams(rep *unit.Report) {
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
	if outClosed && errClosed {
		rep.Streams.State = "closed"
	}
}

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
