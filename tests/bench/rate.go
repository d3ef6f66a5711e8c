package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// rateRounds is how many figures there are of each rate, each over rateFor.
	rateRounds, rateFor = 3, 200 * time.Millisecond
	// leastBare and leastClone are the targets of the server, where so many jobs
	// are in flight as a manager takes with profit.
	leastBare, leastClone = 0.95, 0.7
	profitable            = 8
)

// widths are how many jobs are in flight: begun, and not known to have ended.
var widths = []int{1, profitable, 32}

// rate measures how many jobs a second there are, with so many in flight.
func (b *bench) rate() (err error) {
	r, err := newRuntimes(filepath.Join(b.dir, "rate"), "true")
	if err != nil {
		return err
	}
	s, err := startServer(b.unitward, filepath.Join(b.dir, "rate-state"), 1000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, width := range widths {
		entrants := b.raters(ctx, s, r, width)
		if err := contest(0, rateRounds, entrants); err != nil {
			return err
		}
		b.add(fmt.Sprintf("rate, %d in flight", width), "jobs/s", entrants)
	}
	return nil
}

// raters are who runs jobs with so many in flight.
func (b *bench) raters(ctx context.Context, s *server, r *runtimes, width int) []*entrant {
	const bareLoop, cloneLoop = "bare D-Bus program, one connection", "clone into a cgroup, in a loop"
	toBare, toClone := comparison{To: bareLoop}, comparison{To: cloneLoop}
	if width == profitable {
		toBare.AtLeast, toClone.AtLeast = leastBare, leastClone
	}
	served := func(isolation string, against ...comparison) *entrant {
		return &entrant{series: series{name: "unitward serve (" + isolation + ")", against: against}, ours: true,
			once: func() (float64, error) { return s.rate(isolation, width, rateFor) }}
	}
	commands := func(name, program string, argv func() []string, against ...comparison) *entrant {
		return &entrant{series: series{name: name, lacking: find(program), against: against}, ours: program == b.unitward,
			once: func() (float64, error) { return pump(width, rateFor, func() error { return command(argv()...)() }) }}
	}
	fixed := func(argv ...string) func() []string { return func() []string { return argv } }
	entrants := []*entrant{
		served("service", toBare, comparison{To: peerService}),
		served("cgroup", toClone, comparison{To: peerCrun}),
		served("group", comparison{To: plainTrue}),
		commands(runService, b.unitward, fixed(b.unitward, "run", b.manager, "--isolation", "service", "--", "true"), comparison{To: peerService}),
		commands(runCgroup, b.unitward, fixed(b.unitward, "run", "--isolation", "cgroup", "--", "true"), comparison{To: peerCrun}),
		{series: series{name: bareLoop}, once: func() (float64, error) { return bareRate(ctx, b.manager, width, rateFor) }},
		{series: series{name: cloneLoop}, once: func() (float64, error) { return cloneRate(width, rateFor) }},
		commands(peerService, "systemd-run", fixed("systemd-run", b.manager, "--wait", "--pipe", "-q", "true")),
		commands(peerCrun, "crun", r.crun),
		commands(plainTrue, "true", fixed("true")),
	}
	for _, e := range entrants {
		e.higher = true
	}
	return entrants
}

// pump does a job again and again for a time, so many at once, and says how many
// ended a second.
func pump(width int, d time.Duration, job func() error) (float64, error) {
	var done atomic.Int64
	errs := make([]error, width)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range width {
		wg.Go(func() {
			for time.Since(began) < d && errs[i] == nil {
				errs[i] = job()
				done.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			return 0, err // one says what all would
		}
	}
	return float64(done.Load()) / took.Seconds(), nil
}

// bareRate keeps so many services of `true` in flight, each until it has been
// removed.
func bareRate(ctx context.Context, manager string, width int, d time.Duration) (float64, error) {
	b, err := bareConnect(ctx, manager)
	if err != nil {
		return 0, err
	}
	defer b.conn.Close()
	properties := bareService("/bin/true")
	began := time.Now()
	ended := 0
	for {
		for b.next-ended < width && time.Since(began) < d {
			b.start(ctx, properties)
		}
		if ended == b.next {
			return float64(ended) / time.Since(began).Seconds(), nil
		}
		if err := b.await(ctx); err != nil {
			return 0, err
		}
		ended++
	}
}

// cloneRate starts processes into cgroups of their own, waits for them and
// removes the cgroups.
func cloneRate(width int, d time.Duration) (float64, error) {
	parent, err := ownCgroup()
	if err != nil {
		return 0, err
	}
	var next atomic.Int64
	return pump(width, d, func() error {
		dir := filepath.Join(parent, fmt.Sprintf("bench-clone-%d-%d", os.Getpid(), next.Add(1)))
		p, err := cloneInto(dir, "/bin/true")
		if err == nil {
			_, err = p.Wait()
		}
		return errors.Join(err, syscall.Rmdir(dir))
	})
}
