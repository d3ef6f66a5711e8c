package serve

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve/rpc"
)

const (
	// maxSettled is how many settled jobs are remembered, settledTime how long.
	maxSettled  = 256
	settledTime = 10 * time.Minute
	// maxTokens is how many tokens are remembered that were aborted before
	// their start came, tokenTime how long.
	maxTokens = 1024
	tokenTime = 60 * time.Second
	// maxCalls is how many requests can be under way, and maxCallBytes how long
	// they can be together.
	maxCalls     = 4096
	maxCallBytes = 64 << 20
	// maxLarge is how many requests with large answers are carried out at once.
	maxLarge = 2
	// tidyTime is how often what is old is dropped.
	tidyTime = 30 * time.Second
)

// Config is what a server works with.
type Config struct {
	// Launcher starts the jobs. The server does not close it.
	Launcher *launch.Launcher
	// Caller is what a job inherits, and Environ the environment.
	Caller  keeper.Caller
	Environ []string
	// Version is what the server says of itself.
	Version string
	// MaxRunning is how many jobs can be unsettled; 0 is four for each
	// processor.
	MaxRunning int
}

// Server serves one client. Make it with New, and Serve once.
type Server struct {
	cfg   Config
	l     *launch.Launcher
	w     *writer
	main  *box
	gate  *admission
	slots chan struct{}
	// large are the requests with large answers that are carried out.
	large chan struct{}
	rings *pool
	// gather reads the output of jobs.
	gather *gather

	// tasks are the goroutines that answer requests.
	tasks sync.WaitGroup

	mu          sync.Mutex
	initialized bool
	// ending is true once no request is taken any more.
	ending bool
	calls  map[string]*call
	bytes  int
	// jobs are those that are remembered, by name; retired are the settled
	// among them, the oldest first.
	jobs    map[string]*job
	retired []*job
	starts  map[*start]struct{}
	tokens  map[string]*start
	refused []refusedToken
	// over is set by a shutdown: who wants its answer.
	over *call
	// quit is closed when the server is to end.
	quit chan struct{}
	// at is told of moments that a test has to meet; nil is nobody.
	at func(moment)
}

// moment is one of those that chance seldom meets.
type moment int

const (
	// aboutToLeave: what is left of a job is about to be left to itself.
	aboutToLeave moment = iota
	// awaitingKept: the end waits for that.
	awaitingKept
	// startOver: a start has come to something, and is not answered yet.
	startOver
	// aboutToWatch: a job that another server started is about to be known here.
	aboutToWatch
	// endTold: the end of a job is told, and it is about to be over.
	endTold
)

func (s *Server) reached(m moment) {
	if s.at != nil {
		s.at(m)
	}
}

// New makes a server.
func New(cfg Config) *Server {
	if cfg.MaxRunning <= 0 {
		cfg.MaxRunning = 4 * runtime.NumCPU()
	}
	return &Server{
		cfg: cfg, l: cfg.Launcher, gate: &admission{most: cfg.MaxRunning}, slots: make(chan struct{}, maxStarting), large: make(chan struct{}, maxLarge), rings: &pool{}, gather: &gather{},
		calls: map[string]*call{}, jobs: map[string]*job{}, starts: map[*start]struct{}{}, tokens: map[string]*start{},
		quit: make(chan struct{}),
	}
}

// Serve reads requests from in and answers to out until in ends, ctx is done,
// the client asks for it or takes no more answers. Then jobs that were started
// here with lifetime call are stopped, which takes at most the longest of their
// graces and a few seconds more, and half a second for each job (proofEach) as long
// as one after the other is proven to have ended or a manager is heard of, and it
// returns what is left. A read that is under way is not awaited: in is of no use to
// anybody afterwards.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) Ended {
	s.w = newWriter(out)
	s.main = s.w.box(nil)
	s.rings.reclaim = s.reclaim
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.w.run()
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.read(in)
	}()
	tidy := time.NewTicker(tidyTime)
	defer tidy.Stop()
	why := ""
	for why == "" {
		select {
		case <-ended:
			why = "eof"
		case <-s.quit:
			why = "shutdown"
		case <-ctx.Done():
			why = "signal"
		case <-s.w.failed:
			why = "client"
		case <-tidy.C:
			s.tidy()
		}
	}
	defer s.gather.close()
	return s.end(why, written)
}

// read takes requests until there are no more.
func (s *Server) read(in io.Reader) {
	l := rpc.NewLines(in)
	for s.w.room() {
		line, err := l.Next()
		switch {
		case errors.Is(err, rpc.ErrTooLong):
			s.main.put(failure(nil, fail(CodeRequest, KindTooLong, "cannot read the line: it is longer than 16 MiB")), false)
		case err != nil:
			return
		case len(line) > 0:
			s.take(line)
		}
	}
}

// retire remembers a job whose end is told, for a while.
func (s *Server) retire(j *job) {
	if j.mine {
		s.gate.leave()
	}
	s.mu.Lock()
	s.retired = append(s.retired, j)
	dropped := s.prune(time.Now())
	s.mu.Unlock()
	forget(dropped)
}

// prune takes settled jobs out that are too old or too many, for who holds the
// lock. They are on record still.
func (s *Server) prune(now time.Time) (dropped []*job) {
	for len(s.retired) > 0 && (len(s.retired) > maxSettled || now.Sub(s.retired[0].at) > settledTime) {
		dropped = append(dropped, s.drop(0))
	}
	return dropped
}

// drop takes one settled job out, for who holds the lock.
func (s *Server) drop(i int) *job {
	j := s.retired[i]
	s.retired = slices.Delete(s.retired, i, i+1)
	if s.jobs[j.name] == j {
		delete(s.jobs, j.name)
	}
	for _, token := range j.tokens {
		delete(s.tokens, token)
	}
	j.tokens, j.dropped = nil, true
	return j
}

// forget gives back the memory of jobs.
func forget(jobs []*job) {
	for _, j := range jobs {
		if j.out != nil {
			j.out.forget()
		}
	}
}

// reclaim gives back the output of the settled job that has been so for
// longest; false when there is none.
func (s *Server) reclaim() bool {
	s.mu.Lock()
	var oldest *job
	for _, j := range s.retired {
		if j.out != nil && !j.out.forgotten() {
			oldest = j
			break
		}
	}
	s.mu.Unlock()
	if oldest == nil {
		return false
	}
	oldest.out.forget()
	return true
}

func (s *Server) tidy() {
	now := time.Now()
	s.mu.Lock()
	dropped := s.prune(now)
	s.expire(now)
	s.mu.Unlock()
	forget(dropped)
	s.l.Tidy()
}
