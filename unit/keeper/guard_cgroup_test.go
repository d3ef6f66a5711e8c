package keeper

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestGuardCgroup(t *testing.T) {
	file := t.TempDir() + "/cgroup.events"
	if err := os.WriteFile(file, []byte("populated 1\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := GuardCgroup(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(g.PID, 0); err != nil {
		t.Fatalf("Close ended a guard of a cgroup: %v", err)
	}
	if err := os.WriteFile(file, []byte("populated 0\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	leavesNothing(t, g)

	// Of another file, such as cgroup v1's notify_on_release, only the end counts.
	if err := os.WriteFile(file, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err = GuardCgroup(file); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	time.Sleep(50 * time.Millisecond) // one that ended at once would have
	if pid, err := unix.Wait4(g.PID, &status, unix.WNOHANG, nil); pid != 0 || err != nil {
		t.Errorf("it has ended: %v, status %v", err, status)
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(g.PID, &status, 0, nil); err != nil || !status.Exited() {
		t.Errorf("wait: %v, status %v, want an exit", err, status)
	}

	if err := os.WriteFile(file, []byte("populated 1\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err = GuardCgroup(file); err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(g.PID, 0); err != unix.ESRCH {
		t.Errorf("Kill left the guard: %v", err)
	}
}
