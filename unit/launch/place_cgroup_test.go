package launch

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

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
