package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

// drainTime is how long the output of a job is still read whose end is
// proven: nobody of it can write any more, but one who left its unit.
const drainTime = time.Second

// job is one that this server started or tracks. Its keeper alone has its
// launch.Job.
type job struct {
	s           *Server
	name, owner string
	// nonce is its record's: the name can be another job's once this has settled.
	nonce, token string
	// mine is true for one that this server started.
	mine      bool
	grace     time.Duration
	leftovers unit.Leftovers
	box       *box
	// out is the output that the server reads, tail what it reads of a
	// capture, and in the input that it writes; each may be nil.
	out  *piped
	tail *tail
	in   *input

	// captured is true for one whose output goes to its directory.
	captured bool
	// promotable is true for one that can be detached.
	promotable bool
	// begun is closed when it is told of, once.
	begun  chan struct{}
	once   sync.Once
	orders chan *order
	// kept is closed once its main process has ended and others stay by
	// request, settled once nothing more will be learned.
	kept, settled chan struct{}
	keptOnce      sync.Once

	// tokens are those of all starts that came to it, and dropped is true once it
	// is not remembered any more. Both are under the server's lock.
	tokens  []string
	dropped bool

	mu sync.Mutex
	// rep is the latest report.
	rep  unit.Report
	told Facts
	// ending is true once its end is told.
	ending bool
	// detached is true for a job that outlives the server.
	detached bool
	// changed is closed when there is more to know, and replaced.
	changed chan struct{}
	// at is when it settled.
	at time.Time
}

func (s *Server) newJob(h *launch.Job, rep unit.Report) *job {
	rec := h.Record()
	j := &job{
		s: s, name: h.Name(), owner: rec.Owner, nonce: rec.Identity.Nonce, grace: rec.Grace, leftovers: rec.Leftovers, rep: rep,
		detached: rec.Lifetime != unit.LifetimeCall, captured: rec.Output == unit.OutputCapture,
		begun: make(chan struct{}), orders: make(chan *order), kept: make(chan struct{}), settled: make(chan struct{}), changed: make(chan struct{}),
	}
	return j
}

// facts are those that are established.
func (j *job) facts() Facts {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.told
}

// over is true once nothing more will be learned.
func (j *job) over() bool {
	select {
	case <-j.settled:
		return true
	default:
		return false
	}
}

// toldEnd is true once its end is told, right before it is over.
func (j *job) toldEnd() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.at.IsZero()
}

// report is the latest report, with what is known of the output.
func (j *job) report() unit.Report {
	j.mu.Lock()
	rep := j.rep
	j.mu.Unlock()
	if j.out != nil {
		j.out.tell(&rep)
	}
	return rep
}

// learn takes a look at the job, and tells of what it establishes.
func (j *job) learn(rep unit.Report) {
	if j.out != nil {
		j.out.tell(&rep)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rep = rep
	seen := factsOf(&rep)
	if seen.Exit && !j.told.Exit {
		j.told.Exit = true
		j.box.tell(&Exited{Name: j.name, Exit: rep.Exit, Reason: rep.Reason}, false)
	}
	if seen.Tree && !j.told.Tree {
		j.told.Tree = true
		j.box.tell(&TreeEmptied{Name: j.name, Tree: rep.Tree}, false)
	}
	// Of a capture an empty tree says that nobody writes any more, not that all
	// was written down: the end is told with the job's.
	if seen.Streams && !j.told.Streams && (!j.captured || !seen.Tree || j.ending) {
		j.told.Streams = true
		j.box.tell(&StreamsClosed{Name: j.name, Streams: rep.Streams}, true)
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// streamsClosed tells that every pipe of the job has ended.
func (j *job) streamsClosed() {
	rep := j.report()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.told.Streams {
		at := time.Now()
		j.told.Streams, rep.Streams.At = true, &at
		j.box.tell(&StreamsClosed{Name: j.name, Streams: rep.Streams}, true)
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// next returns a channel that is closed when there is more to know than facts.
func (j *job) next() (Facts, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.told, j.changed
}

// give hands an order to the keeper; false when the job is over. It does not wait
// longer than ctx for a keeper that is busy, which gets the order all the same.
func (j *job) give(ctx context.Context, o *order) bool {
	select {
	case j.orders <- o:
		return true
	case <-j.settled:
		return false
	case <-ctx.Done():
		go j.give(context.Background(), o)
		return true
	}
}

// stop ends the job, and returns what came of it once that is proven, or
// cannot be for now. The error of ctx comes with the latest report; the stop
// goes on. A sparing one leaves a job alone that has been detached (errSpared).
func (j *job) stop(ctx context.Context, grace time.Duration, sparing bool) (unit.Report, error) {
	o := &order{grace: grace, sparing: sparing, answer: make(chan outcome, 1)}
	if !j.give(ctx, o) {
		return j.report(), nil
	}
	select {
	case r := <-o.answer:
		if r.rep.Schema == "" || j.over() {
			r.rep = j.report()
		}
		if r.final {
			r.err = nil
		}
		return r.rep, r.err
	case <-ctx.Done():
		return j.report(), ctx.Err()
	}
}

// finish tells the end.
func (j *job) finish(rep unit.Report) {
	if j.in != nil {
		j.in.close()
	}
	if j.out != nil {
		j.out.drain(drainTime)
	}
	if j.tail != nil {
		j.tail.close()
	}
	j.mu.Lock()
	j.ending = true
	j.mu.Unlock()
	if rep.Schema != "" {
		j.learn(rep)
	}
	rep = j.report()
	j.mu.Lock()
	j.rep, j.at = rep, time.Now()
	j.told.Settled = rep.State == unit.StateSettled
	j.box.tell(&Settled{Name: j.name, Owner: j.owner, Confirmed: rep.Confirmed, Report: rep}, true)
	close(j.changed)
	j.changed = make(chan struct{})
	j.mu.Unlock()
	if j.out != nil {
		j.out.settle()
	}
	j.s.reached(endTold)
	j.s.retire(j) // who finds it over can have it forgotten
	close(j.settled)
}

// overSized stops a job that wrote more than it may.
func (j *job) overSized() {
	go j.give(context.Background(), &order{exceeded: true, grace: j.grace, answer: make(chan outcome, 1)})
}

// isEnded is true for an error that says that there is nothing to act on.
func isEnded(err error) bool {
	var ended *unit.EndedError
	return errors.As(err, &ended)
}
