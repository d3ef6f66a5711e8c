package unit

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// schema is the report of design.md, section 2, with a value of each type.
const schema = `{"schema":"unitward.report/1","name":"unitward-make-7f3a90c1","state":"settled","isolation":"service","manager":"user",
 "unit":"unitward-make-7f3a90c1.service","invocation_id":"0123456789abcdef0123456789abcdef","cgroup":"/user.slice/x","boot_id":"bb","host":"aa",
 "command":["make","test"],"cwd":"/src","owner":"s1","lifetime":"detached","pid":4711,
 "started_at":"2026-03-04T05:06:07Z","ended_at":"2026-03-04T05:06:12.321Z","duration_ms":5321,
 "reason":"failed",
 "exit":{"known":true,"code":2,"signal":null,"core_dumped":false,"source":"systemd","at":"2026-03-04T05:06:12.321Z"},
 "streams":{"state":"closed","stdout_bytes":null,"stderr_bytes":null,"dropped_bytes":null,"at":"2026-03-04T05:06:13.321Z"},
 "tree":{"empty":true,"source":"cgroup.events populated 0","at":"2026-03-04T05:06:13.321Z","members":[]},
 "confirmed":true,"grade":"proven","missing":[],"remedy":null,
 "stop":{"requested_at":null,"by":null,"steps":[]},
 "limits":[{"name":"MemoryMax","asked":"512M","applied":true,"found":"536870912"}],
 "usage":{"cpu_ns":null,"memory_peak":null,"tasks_peak":null},
 "refused":[],
 "left_unit":[]}`

func decode(t *testing.T, s string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func encode(t *testing.T, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(b))
}

func TestReportShape(t *testing.T) {
	r := record()
	r.Limits = []Limit{{Name: "MemoryMax", Asked: "512M", Applied: true, Found: "536870912"}}
	got, want := encode(t, r.Report(seen("exit-code"), proof(2, 0))), decode(t, schema)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(got[key], want[key]) {
			t.Errorf("%s is %v, want %v", key, got[key], want[key])
		}
		delete(got, key)
	}
	for key, v := range got {
		t.Errorf("%s is %v, and the schema has no such key", key, v)
	}
}

// keys lists every key of an object with the keys of the objects in it.
func keys(prefix string, m map[string]any) []string {
	var out []string
	for k, v := range m {
		out = append(out, prefix+k)
		if sub, ok := v.(map[string]any); ok {
			out = append(out, keys(prefix+k+".", sub)...)
		}
	}
	slices.Sort(out)
	return out
}

// arrays are the keys whose value is an array in the schema.
func arrays(prefix string, m map[string]any) []string {
	var out []string
	for k, v := range m {
		switch v := v.(type) {
		case []any:
			out = append(out, prefix+k)
		case map[string]any:
			out = append(out, arrays(prefix+k+".", v)...)
		}
	}
	slices.Sort(out)
	return out
}

// Whatever is known of a job, the object has the same keys, and an array
// with nothing in it is [].
func TestReportHasEveryKey(t *testing.T) {
	want := decode(t, schema)
	unread := verify.Observation{Identity: verify.Identity{State: verify.IdentitySame}}
	for name, rep := range map[string]Report{
		"unread":       record().Report(unread, verify.Verdict{}),
		"killed":       record().Report(seen("signal"), proof(0, 9)),
		"start failed": record().StartFailed(looked, "no such file"),
	} {
		got := encode(t, rep)
		if a, b := keys("", got), keys("", want); !slices.Equal(a, b) {
			t.Errorf("%s: the keys are\n%q\nwant\n%q", name, a, b)
		}
		if a, b := arrays("", got), arrays("", want); !slices.Equal(a, b) {
			t.Errorf("%s: the arrays are\n%q\nwant\n%q", name, a, b)
		}
	}
}

func TestReportSurvivesTheDisk(t *testing.T) {
	r := record()
	rep := r.Report(seen("exit-code"), proof(2, 0))
	r.Sealed = &rep
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Record
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if again := encode(t, back.Sealed); !reflect.DeepEqual(again, encode(t, rep)) {
		t.Errorf("the sealed report became\n%v", again)
	}
}

func TestReportFacts(t *testing.T) {
	rep := record().Report(seen("core-dump"), verify.Verdict{
		Exit: verify.Exit{Known: true, Signal: 11, CoreDumped: true, Source: "s", At: ended},
		Tree: verify.Tree{Source: "populated 1", At: looked, Members: []verify.Member{{PID: 9, Command: "x"}}}, Remedy: "stop it",
		Missing: []verify.Missing{{What: verify.MissingEmpty}},
	})
	switch {
	case text(rep.Exit.Signal) != "SEGV" || rep.Exit.Code != nil || !rep.Exit.CoreDumped:
		t.Errorf("exit %+v", rep.Exit)
	case rep.Streams.State != "held":
		t.Errorf("streams %s while a member is left", rep.Streams.State)
	case rep.EndedAt != nil || rep.DurationMS != nil || rep.Confirmed:
		t.Errorf("it ended at %v after %v, and it did not end", rep.EndedAt, rep.DurationMS)
	case text(rep.Remedy) != "stop it" || len(rep.Missing) != 1 || len(rep.Tree.Members) != 1:
		t.Errorf("remedy %s, missing %v, members %v", text(rep.Remedy), rep.Missing, rep.Tree.Members)
	}
	silent := record()
	silent.Output = OutputNull
	if rep := silent.Report(seen("exit-code"), verify.Verdict{Exit: verify.Exit{Known: true}}); rep.Streams.State != "closed" {
		t.Errorf("streams %s of a job that had none, and has ended", rep.Streams.State)
	}
	if rep := record().Report(seen(""), verify.Verdict{}); rep.Streams.State != "open" || rep.Exit.At != nil {
		t.Errorf("a running job: streams %s, exit %+v", rep.Streams.State, rep.Exit)
	}
}

func TestEndedAt(t *testing.T) {
	o := seen("success")
	o.Unit.InactiveEnterAt = time.Time{}
	if rep := record().Report(o, proof(0, 0)); !rep.EndedAt.Equal(looked) {
		t.Errorf("without a time of the manager: ended at %v, want when it was seen", rep.EndedAt)
	}
	o.Recorded = &verify.Recorded{At: ended}
	if rep := record().Report(o, proof(0, 0)); !rep.EndedAt.Equal(ended) {
		t.Errorf("with a recorder: ended at %v", rep.EndedAt)
	}
	before := seen("success")
	before.Unit.InactiveEnterAt = started.Add(-time.Second)
	if rep := record().Report(before, proof(0, 0)); *rep.DurationMS != 0 {
		t.Errorf("a clock that was set back makes the duration %d", *rep.DurationMS)
	}
}

func TestStartFailed(t *testing.T) {
	r := record()
	r.StartedAt = nil
	rep := r.StartFailed(looked, "no such file")
	if rep.State != StateSettled || text(rep.Reason) != "start-failed" || rep.Exit.Known || rep.Exit.Source != "no such file" || !rep.Confirmed || !rep.Tree.Empty {
		t.Errorf("%+v", rep)
	}
}

// What is not known is null, and never takes the form of an answer.
func TestUnknownIsNull(t *testing.T) {
	bare := &Record{Command: []string{"a<b"}}
	failed := encode(t, bare.StartFailed(looked, "no such file: a<b"))
	for _, key := range []string{"name", "isolation", "unit", "boot_id", "host", "cwd", "pid"} {
		if v, there := failed[key]; !there || v != nil {
			t.Errorf("a start that failed has %s %#v, want null", key, v)
		}
	}
	if source := failed["exit"].(map[string]any)["source"]; source != "no such file: a<b" {
		t.Errorf("its exit's source is %q", source)
	}
	unread := encode(t, record().Report(verify.Observation{Identity: verify.Identity{State: verify.IdentitySame}}, verify.Verdict{}))
	for _, fact := range []string{"exit", "tree"} {
		if source := unread[fact].(map[string]any)["source"]; source != nil {
			t.Errorf("the source of an unknown %s is %#v, want null", fact, source)
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(Text("a<b>&")); err != nil || b.String() != "\"a<b>&\"\n" {
		t.Errorf("an encoder that escapes nothing writes %s, %v", b.String(), err)
	}
	var back Report
	if err := json.Unmarshal([]byte(`{"name":null,"pid":null,"unit":"u"}`), &back); err != nil || back.Name != "" || back.PID != 0 || back.Unit != "u" {
		t.Errorf("read back: %q, %d, %q, %v", back.Name, back.PID, back.Unit, err)
	}
}

func TestErrorsAreOneLineWithHints(t *testing.T) {
	for _, err := range []error{
		&NotFoundError{"foo", "/d"}, &ExistsError{"foo", StateRunning}, &UnitExistsError{Unit: "foo.service", Manager: ManagerUser},
		&NoManagerError{Manager: ManagerSystem}, &NoManagerError{Manager: ManagerUser, Tried: []string{"/a: no", "/b: no"}},
		&AccessError{Op: "start foo", Manager: ManagerSystem, Action: "org.x", Detail: "no"}, &AccessError{Op: "start foo", Manager: ManagerUser},
		&UnknownOutcomeError{Op: "start foo", Err: &NotFoundError{}}, &UnknownOutcomeError{Op: "start foo", Err: &NotFoundError{}, Job: "foo"}, &PropertyError{"foo.service", 257, "bad"}, &IdentityError{"foo", "d"},
		&EndedError{"stop", "foo"}, &StartError{Unit: "foo", Detail: "d"}, &StartError{Unit: "foo", Step: "EXEC"}, &LimitsError{},
	} {
		if s := err.Error(); !strings.HasPrefix(s, "cannot ") || strings.Contains(s, "\n") {
			t.Errorf("%T: %q", err, s)
		}
		if h, ok := err.(interface{ Hint() []string }); ok {
			for _, line := range h.Hint() {
				if line == "" || strings.Contains(line, "\n") {
					t.Errorf("%T: the hint %q", err, line)
				}
			}
		}
	}
	if s := (&PropertyError{Unit: "f", Detail: "d"}).Error(); strings.Contains(s, "systemd 0") {
		t.Error(s)
	}
	user := (&UnitExistsError{Unit: "foo.service", Manager: ManagerUser}).Hint()[1]
	if !strings.Contains(user, "systemctl --user reset-failed foo.service") {
		t.Error(user)
	}
	system := (&UnitExistsError{Unit: "foo.service", Manager: ManagerSystem}).Hint()[0]
	if !strings.Contains(system, "systemctl status") {
		t.Error(system)
	}
}

// However often an end is asked for, a record keeps how it began and how it ended.
func TestStepsAreBounded(t *testing.T) {
	var s Stop
	for i := range 3 * MaxSteps {
		before := s.Steps
		s.Add(Step{Action: strconv.Itoa(i)})
		if len(before) > 0 && before[len(before)-1].Action != strconv.Itoa(i-1) {
			t.Fatalf("step %d changed what others have: %v", i, before)
		}
	}
	if n := len(s.Steps); n != MaxSteps || s.Steps[0].Action != "0" || s.Steps[MaxSteps/2-1].Action != strconv.Itoa(MaxSteps/2-1) || s.Steps[n-1].Action != strconv.Itoa(3*MaxSteps-1) || s.Steps[n-2].Action != strconv.Itoa(3*MaxSteps-2) {
		t.Errorf("%d steps: %v", n, s.Steps)
	}
}
