package keeper

import (
	"errors"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestEndLater: whoever asks a reaper for an end need not stay, and of several
// times the earliest counts.
func TestEndLater(t *testing.T) {
	s := subreaper(t)
	const soon = 50 * time.Millisecond
	for _, after := range [][]time.Duration{{soon}, {time.Hour, soon}, {soon, time.Hour}, {math.MaxInt64, 0}, {-1}} {
		r := started(t, s, shell(`trap "" TERM; setsid sleep 1000 & while :; do sleep 1; done`))
		start, err := StartTime(r.PID())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, d := range after {
			if err := (Process{r.PID(), start}).EndLater(d); err != nil {
				t.Fatal(err)
			}
		}
		childless(t, r)
		if e := r.Exit(); !e.Known || e.Status.Signal() != unix.SIGKILL {
			t.Errorf("%v: the exit is %+v", after, e)
		}
		if min := after[0]; min == soon && r.ChildlessAt().Before(began.Add(soon-time.Millisecond)) {
			t.Errorf("%v: it ended after %v", after, r.ChildlessAt().Sub(began))
		}
		if err := (Process{r.PID(), start}).EndLater(0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("a reaper that is gone: %v", err)
		}
	}
}

// TestEndLaterUntouched: what ends before its time ends as it does.
func TestEndLaterUntouched(t *testing.T) {
	s := subreaper(t)
	r := started(t, s, shell("sleep .05; exit 4"))
	start, err := StartTime(r.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := (Process{r.PID(), start}).EndLater(time.Hour); err != nil {
		t.Fatal(err)
	}
	childless(t, r)
	if e := r.Exit(); e.Status.ExitStatus() != 4 {
		t.Errorf("the exit is %+v", e)
	}
}
