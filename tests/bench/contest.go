package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"
)

// warmUp is how many rounds of a contest of single commands count for nothing.
const warmUp = 3

// entrant takes part in a contest: what it does once is one figure.
type entrant struct {
	series
	// once does it, and says how long it took in milliseconds, or whatever the
	// contest is about.
	once func() (float64, error)
	// ours says that a failure is one of what is measured. Another peer that
	// fails is lacking, and the contest goes on.
	ours bool
}

// contest lets the entrants take turns, n times each after as many times that
// count for nothing as warmUp says, so that all of them see the same machine. In a fixed order each would find it always as the same
// other one left it: the manager awake, or its memory gone cold.
func contest(warmUp, n int, entrants []*entrant) error {
	for round := range warmUp + n {
		for _, i := range rand.Perm(len(entrants)) {
			e := entrants[i]
			if e.lacking != "" {
				continue
			}
			figure, err := e.once()
			switch {
			case err != nil && e.ours:
				return fmt.Errorf("cannot measure %s: %w", e.name, err)
			case err != nil:
				e.lacks(err)
			case round >= warmUp:
				e.figures = append(e.figures, figure)
			}
		}
	}
	return nil
}

// lacks says, also at once, why there are no figures.
func (s *series) lacks(err error) {
	const most = 160
	s.figures = nil
	said := err.Error()
	s.lacking, _, _ = strings.Cut(said, "\n")
	s.lacking = s.lacking[:min(most, len(s.lacking))]
	fmt.Fprintf(os.Stderr, "bench: NOT MEASURED: %s: %s\n", s.name, s.lacking)
}

// add makes rows of a contest's figures.
func (b *bench) add(group, unit string, entrants []*entrant) {
	var all []*series
	for _, e := range entrants {
		all = append(all, &e.series)
	}
	b.rows = append(b.rows, rows(group, unit, all)...)
}

// timed is how long f takes, in milliseconds.
func timed(f func() error) func() (float64, error) {
	return func() (float64, error) {
		began := time.Now()
		err := f()
		return ms(time.Since(began)), err
	}
}

// command runs a program, whose error output is in the error.
func command(argv ...string) func() error {
	return func() error {
		_, err := used(argv...)
		return err
	}
}

// used runs a program, and says what processor time it and the children that it
// has waited for took.
func used(argv ...string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &said, lag
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %.500s", argv[0], err, said.String())
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// find says why a program cannot take part; empty is that it can.
func find(program string) string {
	if _, err := exec.LookPath(program); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return program + " is not installed, or the suite has no package of it"
		}
		return err.Error()
	}
	return ""
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
