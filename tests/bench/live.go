package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// liveSizes are how many jobs live while one more is run; the first is what the
// others are compared with.
var liveSizes = []int{10, 100, 1000, 5000}

const (
	// mostLive is the target of what a client's job costs with the most of them.
	mostLive = 1.2
	// liveRounds is how often one more job is run.
	liveRounds = 15
	// serverJobs is how many jobs the server lets run.
	serverJobs = 10_000
)

// live measures what one more job costs while many live: services, which a
// server has started, with their records in the state directory that the
// command uses.
func (b *bench) live() error {
	s, err := startServer(b.unitward, filepath.Join(b.dir, "state"), serverJobs)
	if err != nil {
		return err
	}
	had := 0
	defer func() { b.end("live jobs: end of the server", s, had) }()
	c := &crowded{b: b, what: "live jobs", sizes: liveSizes, most: mostLive}
	for _, size := range liveSizes {
		began := time.Now()
		if err := s.fill("service", had, size); err != nil {
			return err
		}
		if added := size - had; added >= 1000 {
			c.start = append(c.start, &series{name: fmt.Sprintf("unitward serve (service), %d to %d", had, size), higher: true, figures: []float64{float64(added) / time.Since(began).Seconds()}})
		}
		had = size
		if err := c.measure(size); err != nil {
			return err
		}
	}
	c.report()
	return nil
}

// end ends a server with so many jobs, and measures that. It may say that it
// could not prove all of their ends in the time that it gives itself.
func (b *bench) end(group string, s *server, jobs int) {
	e := &series{name: fmt.Sprintf("end of %d live jobs", jobs)}
	began := time.Now()
	if err := s.end(); err != nil {
		e.lacks(fmt.Errorf("the server has not proven all ends: %w", err))
	} else {
		e.figures = []float64{time.Since(began).Seconds()}
	}
	b.rows = append(b.rows, rows(group, "s", []*series{e})...)
}

// crowded measures the same commands in a growing crowd.
type crowded struct {
	b *bench
	// what the crowd is of; sizes are those that it has, and most is the target
	// of the client's own cost in the largest; 0 is none.
	what  string
	sizes []int
	most  float64
	// elapsed and processor are the figures, and start how fast it grew.
	elapsed, processor, start []*series
}

// measure runs the contest in a crowd of that size.
func (c *crowded) measure(size int) error {
	b := c.b
	var entrants []*entrant
	add := func(name string, ours bool, argv ...string) {
		at := func(size int) string { return fmt.Sprintf("%s, %d %s", name, size, c.what) }
		cpu := &series{name: at(size)}
		e := &entrant{series: series{name: at(size)}, ours: ours}
		if size != c.sizes[0] {
			e.against = []comparison{{To: at(c.sizes[0])}}
			cpu.against = []comparison{{To: at(c.sizes[0])}}
			if ours && size == c.sizes[len(c.sizes)-1] {
				cpu.against[0].AtMost = c.most
			}
		}
		e.once = func() (float64, error) {
			began := time.Now()
			took, err := used(argv...)
			if err != nil {
				cpu.figures, cpu.lacking = nil, "it failed"
				return 0, err
			}
			cpu.figures = append(cpu.figures, ms(took))
			return ms(time.Since(began)), nil
		}
		entrants = append(entrants, e)
		c.processor = append(c.processor, cpu)
	}
	add(runService, true, b.unitward, "run", b.manager, "--isolation", "service", "--", "true")
	add(runCgroup, true, b.unitward, "run", "--isolation", "cgroup", "--", "true")
	add(peerService, false, "systemd-run", b.manager, "--wait", "--pipe", "-q", "true")
	add(peerBare, false, b.self, "bare", b.manager)
	if err := contest(warmUp, liveRounds, entrants); err != nil {
		return err
	}
	for _, e := range entrants {
		c.elapsed = append(c.elapsed, &e.series)
	}
	return nil
}

// report makes the rows.
func (c *crowded) report() {
	for _, s := range c.processor {
		s.figures = s.figures[min(warmUp, len(s.figures)):]
	}
	c.b.rows = append(c.b.rows, rows(c.what+": elapsed", "ms", c.elapsed)...)
	c.b.rows = append(c.b.rows, rows(c.what+": processor time of the client", "ms", c.processor)...)
	c.b.rows = append(c.b.rows, rows(c.what+": started", "jobs/s", c.start)...)
}
