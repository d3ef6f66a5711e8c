package group

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

func itoa(n int) string { return strconv.Itoa(n) }

// ours are the processes of the job among those that were found.
func (j *job) ours(ms []verify.Member) []string {
	var out []string
	for _, pid := range pidsOf(ms) {
		for kind, is := range j.pids {
			if is == pid {
				out = append(out, kind)
			}
		}
	}
	slices.Sort(out)
	return out
}

// What left the group and its session is found by its marker, and what dropped
// the marker is not: that is why the evidence is weak.
func TestScan(t *testing.T) {
	j := start(t, nil, "session", "cleaned")
	j.leave(t)
	if l := j.Look(); l.State != verify.GroupGone {
		t.Errorf("the group: %+v", l)
	}
	s := j.Scan(jobName, patient())
	if got := j.ours(s.Members); !slices.Equal(got, []string{"session"}) {
		t.Errorf("found %q in %+v", got, s)
	}
	if s.State != verify.ScanComplete || s.Err != "" {
		t.Errorf("the scan: %+v", s)
	}
	if s := j.Scan(jobName+"x", patient()); j.ours(s.Members) != nil || j.ours(s.Unreadable) != nil {
		t.Errorf("by another job's name: %+v", s)
	}
	// What was there before the job is none of it, whatever it carries.
	id := j.Identity()
	id.StartTime += 1 << 40
	if s := Recorded(id, "aa").Scan(jobName, patient()); s.State != verify.ScanComplete || s.Members != nil || s.Unreadable != nil {
		t.Errorf("before the job: %+v", s)
	}
	j.end(t)
	if s := j.Scan(jobName, patient()); j.ours(s.Members) != nil {
		t.Errorf("after the end: %+v", s)
	}
}

// A process that is not dumpable is unknown until its session, its cgroup or
// its start excludes it. Root reads it.
func TestUnreadable(t *testing.T) {
	j := start(t, nil, "undumpable")
	j.leave(t)
	s := j.Scan(jobName, patient())
	if os.Geteuid() == 0 {
		if got := j.ours(s.Members); !slices.Equal(got, []string{"undumpable"}) || j.ours(s.Unreadable) != nil {
			t.Errorf("as root: %+v", s)
		}
		return // TestAsNobody does the rest
	}
	if got := j.ours(s.Unreadable); !slices.Equal(got, []string{"undumpable"}) || s.State != verify.ScanComplete || j.ours(s.Members) != nil {
		t.Errorf("not dumpable: %+v", s)
	}
	v := verify.Judge(verify.Observation{
		Name: jobName, Isolation: verify.IsolationGroup, Nonce: "n", Identity: verify.Identity{State: verify.IdentitySame},
		Kept: &verify.Kept{Nonce: "n", Exited: true}, KeeperGone: true, AcceptWeak: true,
		Group: verify.Group{State: verify.GroupGone, PGID: j.id.PGID, Scan: s},
	})
	if v.Confirmed || !strings.Contains(v.Missing[0].Said, "could not read: ") {
		t.Errorf("an unknown process: %+v", v)
	}
	own, err := j.dir.Stat(j.pids["undumpable"])
	if err != nil {
		t.Fatal(err)
	}
	excludes := func(by string, change func(*Identity)) {
		t.Helper()
		id := j.Identity()
		change(&id)
		if s := Recorded(id, "aa").Scan(jobName, patient()); j.ours(s.Unreadable) != nil {
			t.Errorf("excluded by its %s, and yet %+v", by, s)
		}
	}
	excludes("start", func(id *Identity) { id.StartTime = own.StartTime + 1 })
	excludes("cgroup", func(id *Identity) { id.Cgroup = "/nowhere/at/all" })
	id := j.Identity()
	id.Cgroup = ""
	if s := Recorded(id, "aa").Scan(jobName, patient()); j.ours(s.Unreadable) == nil {
		t.Errorf("excluded by a cgroup that is not known: %+v", s)
	}
}

// A process whose session is older than the job is none of it.
func TestScanOlderSession(t *testing.T) {
	old := start(t, nil)
	older := old.id.StartTime
	var young *job
	for { // until it started in a later tick of the clock
		young = start(t, nil, "member", "undumpable")
		if young.id.StartTime > older {
			break
		}
	}
	id := old.Identity()
	id.StartTime++ // a job that came after the leader of that session
	id.PID, id.PGID, id.Session = 1<<30, 1<<30, 1<<30
	g := Recorded(id, "aa")
	s := &scan{g: g, sessions: map[int]bool{}}
	stat, err := g.dir.Stat(old.id.PID)
	if err != nil {
		t.Fatal(err)
	}
	stat.StartTime = young.id.StartTime + 1 // as a member of that session that started later
	if !s.older(stat) {
		t.Error("a member of an older session is not excluded")
	}
	stat.Session = young.id.Session
	if s.older(stat) {
		t.Error("a member of a younger session is excluded")
	}
	stat.Session = 1 << 29
	if s.older(stat) {
		t.Error("a member of a session without a leader is excluded")
	}
	stat.Session = 0
	if !s.older(stat) {
		t.Error("a process of another pid namespace's session is not excluded")
	}
	stat.Session = id.Session
	if s.older(stat) {
		t.Error("a process of the job's own session is excluded")
	}
}

// A leading thread that ended does not make its process a zombie.
func TestHeadless(t *testing.T) {
	j := start(t, nil, "headless")
	pid := j.pids["headless"]
	waitFor(t, "the leading thread", func() bool {
		s, err := j.dir.Stat(pid)
		return err == nil && s.State == 'Z'
	})
	j.leave(t)
	s := j.Scan(jobName, patient())
	if got := j.ours(s.Members); !slices.Equal(got, []string{"headless"}) {
		t.Fatalf("found %q in %+v", got, s)
	}
	for _, m := range s.Members {
		if m.PID == pid && (m.State == "Z" || m.State == "?") {
			t.Errorf("it is called ended: %+v", m)
		}
	}
}

func TestScanBounds(t *testing.T) {
	j := start(t, nil, "session")
	j.leave(t)
	at := time.Unix(0, 0)
	for want, b := range map[string]Bounds{
		"more than 1 processes":   {Processes: 1, Bytes: 1 << 20, Within: time.Hour},
		"more than 0 bytes":       {Processes: 1 << 20, Bytes: 0, Within: time.Hour},
		"longer than 100ms, with": {Processes: 1 << 20, Bytes: 1 << 30, Within: 100 * time.Millisecond, Now: func() time.Time { at = at.Add(30 * time.Millisecond); return at }},
	} {
		if s := j.Scan(jobName, b); s.State != verify.ScanIncomplete || !strings.Contains(s.Err, want) {
			t.Errorf("%q: %+v", want, s)
		}
	}
}
