package main

import (
	"strings"
	"testing"
	"time"
)

func number(n uint64) *uint64 { return &n }

func TestAmount(t *testing.T) {
	for want, n := range map[string]*uint64{"-": nil, "0": number(0), "1023": number(1023), "1.0K": number(1024), "1.5M": number(3 << 19), "2.0G": number(2 << 30), "1024.0T": number(1 << 50)} {
		if got := amount(n); got != want {
			t.Errorf("amount = %q, want %q", got, want)
		}
	}
}

func TestShare(t *testing.T) {
	before := map[string]sample{}
	if got := share("j", nil, before); got != "-" || len(before) != 0 {
		t.Errorf("an unknown use is %q", got)
	}
	if got := share("j", number(5), before); got != "-" {
		t.Errorf("the first is %q", got)
	}
	before["j"] = sample{time.Now().Add(-time.Second), 0}
	if got := share("j", number(uint64(500*time.Millisecond)), before); got != "50%" && got != "49%" {
		t.Errorf("half a CPU is %q", got)
	}
	if got := share("j", number(1), before); got != "-" {
		t.Errorf("less than before is %q", got)
	}
}

func TestFrame(t *testing.T) {
	got := frame("HEAD\nline that is long\n", 6, false)
	if got != "\x1b[HHEAD\x1b[K\nline t\x1b[K\n\x1b[K\n\x1b[J" {
		t.Errorf("the frame is %q", got)
	}
	if got := frame("HEAD\n", 0, true); !strings.Contains(got, "\x1b[1mHEAD\x1b[0m") {
		t.Errorf("in colour it is %q", got)
	}
}

func TestAgo(t *testing.T) {
	if got := ago(time.Time{}); got != "-" {
		t.Errorf("never is %q", got)
	}
	if got := ago(time.Now().Add(-3 * time.Second)); got != "3s ago" {
		t.Errorf("it is %q", got)
	}
	if got := ago(time.Now().Add(time.Hour)); got != "0s ago" {
		t.Errorf("the future is %q", got)
	}
}
