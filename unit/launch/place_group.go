package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/fallback/group"
	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// groupPlace is an owned process group and session, and whatever else descends
// from the job's reaper.
type groupPlace struct{ k *kept }

// owned is the recorded group.
func (p *groupPlace) owned() *group.Group {
	id := p.k.j.rec().Identity
	return group.Recorded(group.Identity{
		Place: group.Place{Host: id.Host, BootID: dashed(id.Boot), UID: id.UID, PIDNamespace: id.PIDNamespace},
		PID:   id.PID, PGID: id.PID, Session: id.PID, StartTime: id.StartTime, Cgroup: id.Cgroup,
	}, p.k.j.l.host.machine)
}

// dashed is a boot id as the kernel has it; systemd and the record write it
// without dashes (sd_id128_to_uuid_string(3)).
func dashed(id string) string {
	if len(id) != 32 {
		return id
	}
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

func (p *groupPlace) look(_ context.Context, lk *look) {
	if p.k.j.rec().Identity.PID == 0 {
		return
	}
	o := &lk.o
	if p.k.reaper != nil {
		p.lookBelow(o)
		return
	}
	if why := p.mistaken(o); why != "" {
		o.Identity = verify.Identity{State: verify.IdentityChanged, Detail: why}
		return
	}
	o.Group = p.owned().Look()
	if o.Kept != nil && o.Kept.Childless {
		return // that is proof: no need to search all processes of the host
	}
	if o.KeeperGone {
		o.Group.Scan = p.owned().Scan(p.k.j.rec().Name, group.DefaultBounds())
		return
	}
	// Descendants can have left the group and the session.
	seen := map[int]bool{}
	for _, m := range o.Group.Members {
		seen[m.PID] = true
	}
	for _, m := range p.members() {
		if !seen[m.PID] {
			o.Group.Members = append(o.Group.Members, m)
			if o.Group.State == verify.GroupGone {
				o.Group.State = verify.GroupPopulated
			}
		}
	}
}

// lookBelow is the look of the job's own keeper, to which its reaper says when
// nothing is left: until then its children are all there is to see.
func (p *groupPlace) lookBelow(o *verify.Observation) {
	if o.Kept != nil && o.Kept.Childless {
		return
	}
	pgid, within := p.k.j.rec().Identity.PID, false
	for _, m := range p.members() {
		o.Group.Members = append(o.Group.Members, m)
		o.Group.State, o.Group.PGID = verify.GroupPopulated, pgid
		if now, err := unix.Getpgid(m.PID); err == nil && now == pgid {
			within = true // so the number is nobody else's
		}
	}
	if within && p.owned().Foreign() {
		o.Group.State = verify.GroupForeign
	}
}

// mistaken says what shows that the recorded number is another process's, or is
// one of another pid namespace; empty when nothing does. All others are known
// by the main process, until its end is known.
func (p *groupPlace) mistaken(o *verify.Observation) string {
	id := p.k.j.rec().Identity
	if o.Kept != nil && o.Kept.Exited || o.Identity.State != verify.IdentitySame {
		return ""
	}
	if here := pidNamespace(); here != id.PIDNamespace {
		return fmt.Sprintf("the pid namespace is %d, recorded was %d", here, id.PIDNamespace)
	}
	if s, err := proc.Root.Stat(id.PID); err == nil && s.StartTime != id.StartTime {
		return fmt.Sprintf("process %d started at %d, recorded was %d", id.PID, s.StartTime, id.StartTime)
	}
	return ""
}

func (p *groupPlace) send(_ context.Context, signal int) (string, error) {
	reached, denied := 0, 0
	for _, d := range p.descendants() {
		switch err := d.Signal(unix.Signal(signal)); {
		case err == nil:
			reached++
		case errors.Is(err, unix.EPERM):
			denied++
		}
	}
	if reached == 0 && denied == 0 {
		err := p.owned().Signal(unix.Signal(signal))
		if errors.Is(err, os.ErrProcessDone) {
			return "", &unit.EndedError{Op: "signal", Name: p.k.j.rec().Name}
		}
		return fmt.Sprintf("to group %d", p.k.j.rec().Identity.PID), err
	}
	how := fmt.Sprintf("to %d descendants", reached)
	if denied > 0 {
		how += fmt.Sprintf(", %d refused it", denied)
	}
	return how, nil
}

// kill tells the reaper to end everything; where it is lost, everything is
// ended from here, as often as it takes.
func (p *groupPlace) kill(ctx context.Context) string {
	recorded := p.k.j.rec().Reaper
	reaper := keeper.Process{PID: recorded.PID, StartTime: recorded.StartTime}
	if !Ended(recorded) && reaper.Signal(unix.SIGTERM) == nil {
		_ = reaper.Signal(unix.SIGCONT) // it may have been stopped
		return "the reaper ends its children"
	}
	bounded, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	how := ""
	for {
		said, err := p.send(bounded, sigKill)
		if how == "" {
			how = said
		}
		if err != nil || !p.lives() {
			return how
		}
		select {
		case <-bounded.Done():
			return how
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pause stops one process after the other, until a look finds none that runs:
// each can have made others meanwhile.
func (p *groupPlace) pause(ctx context.Context) error {
	if _, err := p.send(ctx, int(unix.SIGSTOP)); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, frozenWait)
	defer cancel()
	for {
		running := 0
		for _, d := range p.descendants() {
			if m, ok := describeProcess(d); ok && runs(m) {
				running++
				if err := d.Signal(unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
					return err
				}
			}
		}
		if running == 0 {
			return nil
		}
		select {
		case <-bounded.Done():
			return fmt.Errorf("cannot pause job %s: %d of its processes do not stop", p.k.j.rec().Name, running)
		case <-time.After(time.Millisecond):
		}
	}
}

func (p *groupPlace) resume(ctx context.Context) error {
	_, err := p.send(ctx, int(unix.SIGCONT))
	return err
}

// lives is true when a process is seen that has not ended: a signal to a group
// also reaches one that nobody reaps.
func (p *groupPlace) lives() bool {
	for _, d := range p.descendants() {
		if _, ok := describeProcess(d); ok {
			return true
		}
	}
	return slices.ContainsFunc(p.owned().Look().Members, func(m verify.Member) bool { return m.State != "Z" })
}

// markedError says that nothing but its mark connects what is left to a job:
// that authorises no signal, as anybody can write it.
type markedError struct {
	op, name string
	left     []verify.Member
}

func (e *markedError) Error() string {
	return fmt.Sprintf("cannot %s job %s: its keeper was killed, and only its mark says that process %d, in a session of its own, is of it", e.op, e.name, e.left[0].PID)
}

// Hint proposes the way out.
func (e *markedError) Hint() []string {
	kill := "kill"
	for _, m := range e.left {
		kill += fmt.Sprintf(" %d", m.PID)
	}
	return []string{"if they are the job's, end them by hand: " + kill}
}

func (p *groupPlace) clear(context.Context) bool { return false }

func (p *groupPlace) group() *cgroup.Group { return nil }

func (p *groupPlace) close() {}
