package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
)

var errRefused = errors.New("refused")

// Who tends a job is not driven off by stops that are refused, nor by waits that
// fail now and then, but by those that fail one after the other.
func TestKeeperGivesUp(t *testing.T) {
	k := &keeping{j: &job{}}
	fails := func(stop, lasted bool) bool {
		answer := make(chan outcome, 1)
		k.killAt, k.waiters, k.began = time.Time{}, nil, time.Now()
		if stop {
			k.killAt, k.waiters = time.Now(), []chan outcome{answer}
		}
		if lasted {
			k.began = k.began.Add(-lastingTime)
		}
		_, more := k.heard(outcome{err: errRefused})
		if stop && !errors.Is((<-answer).err, errRefused) {
			t.Error("who wanted the stop is not told")
		}
		return more
	}
	for range 2 * maxRetries {
		if !fails(true, false) || !fails(false, true) {
			t.Fatal("it gives up")
		}
	}
	for range maxRetries {
		if !fails(false, false) {
			t.Fatal("it gives up too early")
		}
		fails(true, false)
	}
	if fails(false, false) {
		t.Error("it never gives up")
	}
}

// A stop whose request is cancelled while the keeper is busy is answered, and
// goes on when the keeper has time for it.
func TestStopIsCancelledWhileKeeperIsBusy(t *testing.T) {
	j := &job{orders: make(chan *order), settled: make(chan struct{}), rep: unit.Report{Name: "a"}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if rep, err := j.stop(ctx, time.Second, false); !errors.Is(err, context.Canceled) || rep.Name != "a" {
		t.Errorf("%+v, %v", rep, err)
	}
	if o := <-j.orders; o.grace != time.Second {
		t.Errorf("%+v", o)
	}
}
