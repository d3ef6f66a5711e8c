package launch

import (
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// Whatever is seen of an end, in whatever order, SIGKILL that was needed is told of.
func TestEnding(t *testing.T) {
	told := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	at := func(d time.Duration) time.Time { return told.Add(d) }
	due := at(2 * time.Second)
	early, late := at(time.Second), at(2100*time.Millisecond)
	killed := func(at time.Time) verify.Exit { return verify.Exit{Known: true, Signal: sigKill, At: at} }
	termed := verify.Exit{Known: true, Signal: 15, At: early}
	for _, c := range []struct {
		about string
		e     ending
		by    string
		when  time.Time
	}{
		{"nothing but a signal", ending{}, "", told},
		{"TERM sufficed", ending{due: &due, trail: []string{"running", "stop-sigterm", "dead"}, result: "success", main: termed, inactive: early}, "", told},
		{"the manager signalled that it kills", ending{due: &due, trail: []string{"stop-sigterm", "stop-sigkill", "failed"}, result: "timeout", main: killed(late), inactive: late}, byManager, due},
		{"it killed what the main process had left", ending{due: &due, trail: []string{"final-sigterm", "final-sigkill"}, main: termed}, byManager, due},
		{"it killed too fast to be signalled (247)", ending{due: &due, trail: []string{"stop-sigterm", "failed"}, result: "timeout", main: killed(late), inactive: late}, byManager, due},
		{"of the end nothing but the date is left", ending{due: &due, main: termed, inactive: late}, byManager, due},
		{"the date is lost", ending{due: &due, trail: []string{"stop-sigterm", "failed"}, result: "timeout", main: killed(late)}, byManager, due},
		{"the date is lost, and only what was left had to be killed", ending{due: &due, result: "timeout", main: termed}, byManager, due},
		{"only the recorder tells", ending{due: &due, result: "timeout", main: killed(late), recorded: late}, byManager, due},
		{"the recorder ran when it was due", ending{due: &due, main: killed(late), recorded: late}, byManager, due},
		{"the recorder ran before", ending{due: &due, result: "success", main: termed, recorded: early}, "", told},
		{"its own time was up, and TERM sufficed", ending{due: &due, result: "timeout", timedOut: true, main: termed, inactive: early}, "", told},
		{"its own time was up, and the date is lost", ending{due: &due, result: "timeout", timedOut: true, main: termed}, "", told},
		{"its own time was up, and it had to be killed", ending{due: &due, result: "timeout", timedOut: true, main: killed(late)}, byManager, due},
		{"who tended it was gone, and its reaper ended it", ending{due: &due, main: killed(early), untended: true, inactive: early}, byReaper, early},
		{"that was before", ending{due: &due, main: killed(at(-time.Second)), untended: true, inactive: early}, "", told},
		{"who tended it was gone after it", ending{due: &due, main: termed, untended: true, inactive: early}, "", told},
		{"somebody else killed it", ending{due: &due, main: killed(early), inactive: early}, "", told},
		{"the manager was told nothing", ending{main: termed, inactive: late, recorded: late}, "", told},
		{"the manager was told nothing, and kills all the same", ending{trail: []string{"stop-sigkill"}, main: killed(late)}, byManager, late},
	} {
		step, ok := c.e.kill(told)
		if ok != (c.by != "") || ok && (step.Detail != c.by || step.Action != "KILL" || !step.At.Equal(c.when)) {
			t.Errorf("%s: %v, %+v, want %q at %v", c.about, ok, step, c.by, c.when)
		}
	}
}

// A signal has not sufficed where SIGKILL ended the main process after it.
func TestOutlived(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	exit := func(signal int, d time.Duration) verify.Exit {
		return verify.Exit{Known: true, Signal: signal, At: at.Add(d)}
	}
	for _, c := range []struct {
		action string
		main   verify.Exit
		want   bool
	}{
		{"TERM", exit(15, time.Second), false},
		{"TERM", exit(0, time.Second), false},
		{"TERM", exit(9, time.Second), true},
		{"INT", exit(9, time.Second), true},
		{"TERM", exit(9, -time.Second), false}, // what it had left was ended
		{"TERM", exit(9, 0), false},
		{"KILL", exit(9, time.Second), false},
		{"TERM", verify.Exit{}, false},
	} {
		if got := outlived(unit.Step{At: at, Action: c.action}, c.main); got != c.want {
			t.Errorf("%s, then %+v: %v", c.action, c.main, got)
		}
	}
}

// A step of another process is never lost.
func TestTookPart(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	by := byStop
	stop := func(actions ...string) unit.Stop {
		s := unit.Stop{RequestedAt: &at, By: &by}
		for i, a := range actions {
			s.Steps = append(s.Steps, unit.Step{At: at.Add(time.Duration(i) * time.Second), Action: a})
		}
		return s
	}
	for _, c := range []struct {
		recorded, known unit.Stop
		want            bool
	}{
		{unit.Stop{}, unit.Stop{}, false},
		{stop("TERM"), unit.Stop{}, true},
		{stop("TERM"), stop("TERM"), false},
		{stop("TERM"), stop("TERM", "KILL"), false}, // by the manager, which is known here alone
		{stop("TERM", "KILL"), stop("TERM"), true},
		{unit.Stop{}, stop("TERM"), false},
		{unit.Stop{By: &by}, unit.Stop{}, true},
		{unit.Stop{By: &by}, stop("TERM"), false},
	} {
		if got := tookPart(c.recorded, c.known); got != c.want {
			t.Errorf("recorded %+v, known %+v: %v", c.recorded, c.known, got)
		}
	}
}

func TestIsRecorder(t *testing.T) {
	const self = "/opt/unitward/bin/unitward"
	for _, c := range []struct {
		self, command string
		want          bool
	}{
		{self, self + " _record /state/jobs/x", true},
		{self, "(unitward)", true},
		{"/opt/unitward-1.2", "(ward-1.2)", true},
		{"/uw", "(uw)", true},
		{self, self + " run -- true", false},
		{self, "sh -c " + self + " _record x", false},
		{self, "unitward", false},
		{self, "", false},
	} {
		if got := isRecorder(c.command, c.self); got != c.want {
			t.Errorf("%s of %s: %v", c.command, c.self, got)
		}
	}
}

func TestLeftNothing(t *testing.T) {
	at := time.Unix(100, 0)
	kept := func(childless time.Time) *verify.Kept {
		return &verify.Kept{Exited: true, Childless: !childless.IsZero(), ChildlessAt: childless}
	}
	for _, c := range []struct {
		about string
		kept  *verify.Kept
		gone  time.Time
		want  bool
	}{
		{"nobody tended it", nil, at, false},
		{"nothing was left before it went", kept(at.Add(-time.Millisecond)), at, true},
		{"at the same moment", kept(at), at, true},
		{"something was, and was ended after", kept(at.Add(time.Millisecond)), at, false},
		{"something is", kept(time.Time{}), at, false},
		{"when it went is not known", kept(at), time.Time{}, false},
	} {
		if got := leftNothing(verify.Observation{Kept: c.kept, Unit: verify.Unit{MainExitAt: c.gone}}); got != c.want {
			t.Errorf("%s: leftNothing = %v, want %v", c.about, got, c.want)
		}
	}
}
