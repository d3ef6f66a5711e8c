package main

import (
	"errors"
	"testing"
)

func TestContest(t *testing.T) {
	ran := map[string]int{}
	count := func(name string, err error) *entrant {
		return &entrant{series: series{name: name}, once: func() (float64, error) {
			ran[name]++
			return float64(ran[name]), err
		}}
	}
	good, bad, absent := count("good", nil), count("bad", errors.New("cannot do it\nat length")), count("absent", nil)
	absent.lacking = "is not installed"
	if err := contest(warmUp, 5, []*entrant{good, bad, absent}); err != nil {
		t.Fatal(err)
	}
	if ran["good"] != warmUp+5 || len(good.figures) != 5 {
		t.Errorf("ran %d times, has %d figures", ran["good"], len(good.figures))
	}
	if ran["bad"] != 1 || bad.lacking != "cannot do it" || len(bad.figures) != 0 {
		t.Errorf("what fails: ran %d times, %q", ran["bad"], bad.lacking)
	}
	if ran["absent"] != 0 {
		t.Error("what is not there was run")
	}
	ours := count("ours", errors.New("cannot"))
	ours.ours = true
	if err := contest(warmUp, 1, []*entrant{ours}); err == nil {
		t.Error("a failure of ours is passed over")
	}
}

func TestPump(t *testing.T) {
	if rate, err := pump(3, 0, func() error { return nil }); err != nil || rate != 0 {
		t.Errorf("no time: %v, %v", rate, err)
	}
	if _, err := pump(2, 1<<30, func() error { return errors.New("cannot") }); err == nil {
		t.Error("failures are passed over")
	}
}
