package keeper

import (
	"os"
	"testing"
)

func TestSpareThreads(t *testing.T) {
	threads := func() int {
		t.Helper()
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	n := threads() + 3
	SpareThreads(n)
	if made := threads(); made <= n {
		t.Errorf("%d threads, want more than %d", made, n)
	}
}
