package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

const childVariable = "UNITWARD_STORE_TEST"

// TestMain is also the other process of the tests that need one.
func TestMain(m *testing.M) {
	what := os.Getenv(childVariable)
	if what == "" {
		os.Exit(m.Run())
	}
	if err := asChild(what, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func asChild(what, dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	e, _, err := s.Load("foo")
	if err != nil {
		return err
	}
	more := func(r *unit.Record) { r.OwnerProcess.PID++ }
	switch what {
	case "update":
		for range 50 {
			if _, err := e.Update(false, more); err != nil {
				return err
			}
		}
	case "forever":
		fmt.Println("begun")
		for {
			if _, err := e.Update(false, more); err != nil {
				return err
			}
		}
	case "full":
		// Go ignores no SIGXFSZ by itself; ignored, the write fails with
		// EFBIG after the first bytes, as on a full disk.
		signal.Ignore(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 16, Max: 16}); err != nil {
			return err
		}
		var bad *DirError
		if _, err := e.Update(true, more); !errors.As(err, &bad) || !errors.Is(err, unix.EFBIG) {
			return fmt.Errorf("Update on a full disk: %v", err)
		}
		if _, err := s.Create(newRecord("bar")); !errors.As(err, &bad) {
			return fmt.Errorf("Create on a full disk: %v", err)
		}
	}
	return nil
}

// child runs this test binary as another process: see TestMain.
func child(what string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childVariable+"="+what)
	return cmd
}

func TestUpdatesFromGoroutines(t *testing.T) {
	s := fresh(t)
	e := create(t, s, "foo")
	const workers, times = 16, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range times {
				if _, err := e.Update(false, func(r *unit.Record) { r.OwnerProcess.PID++ }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := load(t, s, "foo").OwnerProcess.PID; n != workers*times {
		t.Errorf("%d of %d updates are there", n, workers*times)
	}
}

func TestUpdatesFromProcesses(t *testing.T) {
	s := fresh(t)
	create(t, s, "foo")
	const workers, times = 4, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			if out, err := child("update", filepath.Dir(s.Dir())).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if n := load(t, s, "foo").OwnerProcess.PID; n != workers*times {
		t.Errorf("%d of %d updates are there", n, workers*times)
	}
}

// A writer that is killed at any moment leaves the old record or the new one.
func TestKilledWriter(t *testing.T) {
	s := fresh(t)
	create(t, s, "foo")
	for range 10 {
		cmd := child("forever", filepath.Dir(s.Dir()))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // it has begun
			t.Fatal(err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		before := load(t, s, "foo").OwnerProcess.PID
		e, _, err := s.Load("foo")
		if err != nil {
			t.Fatal(err)
		}
		if rec, err := e.Update(false, func(r *unit.Record) { r.OwnerProcess.PID++ }); err != nil || rec.OwnerProcess.PID != before+1 {
			t.Fatalf("after a kill: %+v, %v", rec, err)
		}
		e.Close()
	}
}
