package verify

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The bounds as design §2 states them, not as the code does.
const (
	within = 2 * time.Second
	tries  = 21
	query  = 100 * time.Millisecond
)

// handClock moves only when it is told to.
type handClock struct {
	now    time.Time
	slept  []time.Duration
	jump   func(asked time.Duration) time.Duration // how far a sleep moves the clock
	onWake func()
}

func newClock() *handClock {
	return &handClock{now: lookedAt, jump: func(d time.Duration) time.Duration { return d }, onWake: func() {}}
}

func (c *handClock) Now() time.Time { return c.now }

func (c *handClock) Sleep(_ context.Context, d time.Duration) {
	c.slept = append(c.slept, d)
	c.now = c.now.Add(c.jump(d))
	c.onWake()
}

// undecided is an observation that a later look may decide.
func undecided() Observation {
	return job(unit("inactive/dead", "success", 1, 0, ourPath, TasksUnset), unreadable("EIO"))
}

func confirmable() Observation {
	return job(unit("inactive/dead", "success", 1, 0, "", TasksUnset), cgroup(CgroupGone))
}

func TestRecheckSchedule(t *testing.T) {
	clock := newClock()
	var begun []time.Duration
	v := Recheck(context.Background(), clock, func(context.Context) Observation {
		begun = append(begun, clock.now.Sub(lookedAt))
		return undecided()
	})
	if v.Confirmed || len(v.Missing) == 0 {
		t.Fatalf("verdict is %+v", v)
	}
	if begun[0] != 0 || begun[1] != 5*time.Millisecond || begun[len(begun)-1] != within-query {
		t.Errorf("looks began at %v", begun)
	}
	if n := len(begun); n < 15 || n > tries {
		t.Errorf("%d looks", n)
	}
	for i, d := range clock.slept {
		if d <= 0 || d > maxPause || i > 0 && i < len(clock.slept)-1 && d < clock.slept[i-1] {
			t.Errorf("pauses are %v", clock.slept)
			break
		}
	}
}

// A clock that stands still or runs backwards leaves the other bound.
func TestRecheckTries(t *testing.T) {
	for name, jump := range map[string]time.Duration{"still": 0, "backwards": -time.Hour} {
		clock, looks := newClock(), 0
		clock.jump = func(time.Duration) time.Duration { return jump }
		Recheck(context.Background(), clock, func(context.Context) Observation { looks++; return undecided() })
		if looks != tries {
			t.Errorf("%s: %d looks, want %d", name, looks, tries)
		}
	}
}

func TestRecheckBounds(t *testing.T) {
	most := 0
	rapid.Check(t, func(t *rapid.T) {
		clock, looks := newClock(), 0
		wild := rapid.Bool().Draw(t, "the clock jumps")
		step := rapid.Int64Range(0, int64(150*time.Millisecond))
		clock.jump = func(asked time.Duration) time.Duration {
			if wild && rapid.IntRange(0, 5).Draw(t, "jump?") == 0 {
				return time.Duration(rapid.Int64Range(-int64(3*time.Second), int64(3*time.Second)).Draw(t, "jump"))
			}
			return asked
		}
		slow := rapid.Bool().Draw(t, "looks are slow")
		v := Recheck(context.Background(), clock, func(context.Context) Observation {
			looks++
			if began := clock.now.Sub(lookedAt); began > within && looks > 1 {
				t.Fatalf("look %d began after %v", looks, began)
			}
			if slow {
				clock.now = clock.now.Add(min(time.Duration(step.Draw(t, "look")), query))
			}
			return undecided()
		})
		if looks < 1 || looks > tries {
			t.Fatalf("%d looks", looks)
		}
		if took := clock.now.Sub(lookedAt); !wild && took > within {
			t.Fatalf("it took %v", took)
		}
		if v.Confirmed {
			t.Fatal("confirmed by patience")
		}
		most = max(most, looks)
	})
	if most != tries {
		t.Errorf("no run came to %d looks, only to %d", tries, most)
	}
}

// One look that overstays is the last one.
func TestRecheckOneLongLook(t *testing.T) {
	clock, looks := newClock(), 0
	Recheck(context.Background(), clock, func(context.Context) Observation {
		looks++
		clock.now = clock.now.Add(time.Minute)
		return undecided()
	})
	if looks != 1 || len(clock.slept) != 0 {
		t.Errorf("%d looks, %d sleeps", looks, len(clock.slept))
	}
}

func TestRecheckEndsEarly(t *testing.T) {
	for name, c := range map[string]struct {
		last                 Observation
		confirmed, lost, end bool
	}{
		"confirmed": {last: confirmable(), confirmed: true, end: true},
		"lost":      {last: job(notFound(), cgroup(CgroupGone)), lost: true, end: true},
		"survivor":  {last: job(unit("inactive/dead", "success", 1, 0, ourPath, TasksUnset), populated(survivor)), end: true},
		// A count of tasks can be a zombie that is reaped a moment later.
		"counted by the manager": {last: job(unit("inactive/dead", "success", 1, 0, ourPath, 1), Cgroup{})},
		"not compared":           {last: confirmable().identity(IdentityUnchecked, "")},
	} {
		t.Run(name, func(t *testing.T) {
			clock, looks := newClock(), 0
			v := Recheck(context.Background(), clock, func(context.Context) Observation {
				if looks++; looks < 3 {
					return undecided()
				}
				return c.last
			})
			if (looks == 3) != c.end || v.Confirmed != c.confirmed || v.Lost != c.lost {
				t.Errorf("%d looks, verdict %+v", looks, v)
			}
		})
	}
}

func TestRecheckHeedsItsContext(t *testing.T) {
	t.Run("done before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		clock, looks := newClock(), 0
		v := Recheck(ctx, clock, func(ctx context.Context) Observation {
			if looks++; ctx.Err() == nil {
				t.Error("the query's context is alive")
			}
			return confirmable()
		})
		if looks != 1 || !v.Confirmed || len(clock.slept) != 0 {
			t.Errorf("%d looks, %d sleeps, confirmed %v", looks, len(clock.slept), v.Confirmed)
		}
	})
	t.Run("done within a look", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		clock, looks := newClock(), 0
		Recheck(ctx, clock, func(context.Context) Observation {
			if looks++; looks == 2 {
				cancel()
			}
			return undecided()
		})
		if looks != 2 || len(clock.slept) != 1 {
			t.Errorf("%d looks, %d sleeps", looks, len(clock.slept))
		}
	})
	t.Run("done within a sleep", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		clock, looks := newClock(), 0
		clock.onWake = cancel
		v := Recheck(ctx, clock, func(ctx context.Context) Observation {
			if looks++; ctx.Err() != nil { // what a look without time would bring
				return job(silent("context canceled"), unreadable("context canceled"))
			}
			return undecided()
		})
		if looks != 1 || !v.Exit.Known {
			t.Errorf("%d looks, and what the last good one said is gone: %+v", looks, v)
		}
	})
}

// syncClock is the real clock, which synctest makes a fake one.
type syncClock struct{}

func (syncClock) Now() time.Time { return time.Now() }
func (syncClock) Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func TestRecheckGivesEachQueryItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		Recheck(t.Context(), syncClock{}, func(ctx context.Context) Observation {
			looks++
			deadline, ok := ctx.Deadline()
			if !ok || time.Until(deadline) != query {
				t.Errorf("look %d has its deadline in %v", looks, time.Until(deadline))
			}
			<-ctx.Done() // as slow as a look may be
			return undecided()
		})
		if took := time.Since(began); took > within || took < 1800*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if looks < 8 || looks > tries {
			t.Errorf("%d looks", looks)
		}
	})
}

func TestRecheckKeepsAnEarlierDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		Recheck(ctx, syncClock{}, func(ctx context.Context) Observation {
			if d, _ := ctx.Deadline(); d.Sub(began) > 30*time.Millisecond {
				t.Errorf("deadline after %v", d.Sub(began))
			}
			return undecided()
		})
		if took := time.Since(began); took != 30*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}
