package keeper

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLowestNice(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NICE, nil, &old); err != nil {
		t.Fatal(err)
	}
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Prlimit(0, unix.RLIMIT_NICE, &old, nil)
	for _, limit := range []uint64{0, 1, 15, 20, 25, 40, unix.RLIM_INFINITY} {
		if limit > old.Max {
			continue // raising it takes a privilege
		}
		if err := unix.Prlimit(0, unix.RLIMIT_NICE, &unix.Rlimit{Cur: limit, Max: old.Max}, nil); err != nil {
			t.Fatal(err)
		}
		for _, pid := range []int{0, os.Getpid()} {
			if got, err := LowestNice(pid); err != nil || got != lowestNice(prio, limit) {
				t.Errorf("limit %d, process %d: %d, %v; want %d", limit, pid, got, err, lowestNice(prio, limit))
			}
		}
	}
	for _, c := range []struct {
		prio  int
		limit uint64
		want  int
	}{
		{20, 0, 0}, {20, 19, 0}, {20, 25, -5}, {20, 40, -20}, {20, unix.RLIM_INFINITY, -20}, {10, 0, 10}, {10, 20, 0}, {25, 0, -5},
	} {
		if got := lowestNice(c.prio, c.limit); got != c.want {
			t.Errorf("lowestNice(%d, %d) = %d, want %d", c.prio, c.limit, got, c.want)
		}
	}
	if _, err := LowestNice(1 << 30); err == nil {
		t.Error("of no process")
	}
}
