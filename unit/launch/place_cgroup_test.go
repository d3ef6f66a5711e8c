package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
)

// Whoever wants to act on a job that has just ended, and whose cgroup is removed,
// is told that it has ended.
func TestCgroupGoneIsAnEnd(t *testing.T) {
	l := &Launcher{}
	if l.hierarchy() == nil {
		t.Skip("cgroup2: there is none here")
	}
	p := &cgroupPlace{j: newJob(l, &unit.Record{Name: "j", Identity: unit.Identity{Cgroup: "/unitward-test-nowhere/j", CgroupInode: 4711}}, nil)}
	_, sent := p.send(context.Background(), int(unix.SIGTERM))
	for op, err := range map[string]error{"send": sent, "pause": p.pause(context.Background()), "resume": p.resume(context.Background())} {
		var ended *unit.EndedError
		if !errors.As(err, &ended) || ended.Name != "j" {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// Who forwards a signal while another waits opens the cgroup no second time.
func TestCgroupIsOpenedOnce(t *testing.T) {
	l := &Launcher{}
	h := l.hierarchy()
	if h == nil {
		t.Skip("cgroup2: there is none here")
	}
	parent, err := h.FindParent("")
	if err != nil {
		t.Skip("cgroup: ", err)
	}
	defer parent.Close()
	made, err := parent.Create(fmt.Sprintf("unitward-test-once-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	defer made.Remove(context.Background())
	for range 32 {
		p := &cgroupPlace{j: newJob(l, &unit.Record{Name: "j", Identity: unit.Identity{Cgroup: made.Path, CgroupInode: made.Inode}}, nil)}
		var units [8]*cgroup.Unit
		var all sync.WaitGroup
		for i := range units {
			all.Go(func() {
				u, err := p.open()
				if err != nil {
					t.Error(err)
				}
				units[i] = u
			})
		}
		all.Wait()
		p.close()
		for _, u := range units {
			if u != units[0] {
				t.Fatalf("it is opened as %v", units)
			}
		}
	}
}
