package launch

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// killingAll notes that all of the job gets SIGKILL: of one that is tended nobody
// may be left then to say how its main process ended.
func (j *Job) killingAll() {
	if j.rec().Tended {
		_ = j.note(func(rec *unit.Record) { rec.KilledAll = true }) // what fails withholds
	}
}

// Signal sends a signal to the main process or to all of the job. The error
// is a *unit.EndedError when there is none, a *unit.IdentityError when what
// is there is not the job, or the manager's refusal.
func (j *Job) Signal(ctx context.Context, who unit.Who, signal int) error {
	err := j.act(ctx, "signal", func(b backend) error {
		if who == unit.WhoAll && signal == sigKill {
			j.killingAll()
		}
		return b.signal(ctx, who, signal)
	})
	if err != nil || signal != sigKill {
		return err
	}
	_, err = j.witness(ctx)
	return err
}

// witness stays to see what comes of SIGKILL. A kernel may also kill what is put
// into a cgroup after cgroup.kill: then no recorder runs, and whoever holds the unit
// is its only witness.
func (j *Job) witness(ctx context.Context) (unit.Report, error) {
	waited, cancel := context.WithTimeout(ctx, witnessWait)
	defer cancel()
	rep, err := j.Wait(waited, FactSettled)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	return rep, err
}

// Forward sends a signal to a job that this process started and holds. One that
// cannot reach the job since there is no manager any more ends a wait for what
// only the manager could tell. The errors are those of Signal.
func (j *Job) Forward(ctx context.Context, who unit.Who, signal int) error {
	err := j.held.forward(ctx, who, signal)
	if err != nil {
		offer(j.urged)
	}
	return err
}

func (j *Job) killSignal() int {
	if j.rec().KillSignal == 0 {
		return int(unix.SIGTERM)
	}
	return j.rec().KillSignal
}
