package keeper

import (
	"os"
	"testing"

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
	var status unix.WaitStatus
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
