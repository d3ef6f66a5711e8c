package dbusclient

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
)

// lines writes properties as NAME SIGNATURE VALUE.
func lines(ps []property.Property) []string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s %s %v", p.Name, p.Value.Signature(), p.Value.Value()))
	}
	return out
}

func plain() Service {
	return Service{
		Unit: "foo.service", Description: "a job", Slice: "app-unitward.slice", Path: "/bin/echo", Argv: []string{"echo", "hi"}, Dir: "/src",
		Grace: 10 * time.Second, Leftovers: unit.LeftoversKill, Output: unit.OutputNull,
	}
}

const execStart = "ExecStart a(sasb) [{/bin/echo [echo hi] false}]"

// base is what plain asks a bus for.
var base = []string{
	"Description s a job",
	"Slice s app-unitward.slice",
	"Type s exec",
	execStart,
	"WorkingDirectory s /src",
	"IgnoreSIGPIPE b false",
	"TimeoutStopUSec t 10000000",
	"CollectMode s inactive-or-failed",
	"AddRef b true",
	"StandardOutput s null",
	"StandardError s null",
}

// everyExitLine is what makes RemainAfterExit= hold for every end.
var everyExitLine = fmt.Sprintf("SuccessExitStatus (aiai) %v", everyExit())

func TestServiceProperties(t *testing.T) {
	umask, nice := uint32(0o27), -5
	var limits []unit.Rlimit
	for i := range unit.RlimitNames {
		limits = append(limits, unit.Rlimit{Soft: uint64(i), Hard: ^uint64(0)})
	}
	var limitLines []string
	for i, name := range unit.RlimitNames {
		limitLines = append(limitLines, "Limit"+name+" t 18446744073709551615", fmt.Sprintf("Limit%sSoft t %d", name, i))
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := null.Fd()
	again, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, c := range []struct {
		name    string
		change  func(*Service)
		version int
		private bool
		adds    []string
		drops   []string
	}{
		{name: "plain"},
		{name: "a private socket holds no reference", private: true, drops: []string{"AddRef"}},
		{name: "timeout", change: func(s *Service) { s.Timeout = 90 * time.Second }, adds: []string{"RuntimeMaxUSec t 90000000"}},
		{name: "a timeout below a microsecond is not for ever", change: func(s *Service) { s.Timeout = 1 }, adds: []string{"RuntimeMaxUSec t 1"}},
		{name: "no grace is not for ever", change: func(s *Service) { s.Grace = 0 }, drops: []string{"TimeoutStopUSec"}, adds: []string{"TimeoutStopUSec t 1"}},
		{name: "the longest grace", change: func(s *Service) { s.Grace = 1<<63 - 1 }, drops: []string{"TimeoutStopUSec"},
			adds: []string{"TimeoutStopUSec t 9223372036854775"}},
		{name: "a negative grace", change: func(s *Service) { s.Grace = -time.Second }, drops: []string{"TimeoutStopUSec"}, adds: []string{"TimeoutStopUSec t 1"}},
		{name: "kill signal", change: func(s *Service) { s.KillSignal = 2 }, adds: []string{"KillSignal i 2"}},
		{name: "leftovers wait", change: func(s *Service) { s.Leftovers = unit.LeftoversWait }, version: 254, adds: []string{"ExitType s cgroup"}},
		{name: "leftovers wait, before", change: func(s *Service) { s.Leftovers = unit.LeftoversWait }, version: 253, adds: []string{"RemainAfterExit b true", everyExitLine}},
		{name: "leftovers keep", change: func(s *Service) { s.Leftovers = unit.LeftoversKeep }, version: 262, adds: []string{"ExitType s cgroup"}},
		{name: "leftovers keep, version unknown", change: func(s *Service) { s.Leftovers = unit.LeftoversKeep }, version: -1, adds: []string{"RemainAfterExit b true", everyExitLine}},
		{name: "no Type=exec on 247", change: func(s *Service) {}, version: 247, drops: []string{"Type"}, adds: []string{"Type s simple"}},
		{name: "umask", change: func(s *Service) { s.Umask = &umask }, adds: []string{"UMask u 23"}},
		{name: "environment file", change: func(s *Service) { s.EnvironmentFile = "/run/e" }, adds: []string{"EnvironmentFiles a(sb) [{/run/e false}]"}},
		{name: "unset", change: func(s *Service) { s.Unset = []string{"A", "B"} }, adds: []string{"UnsetEnvironment as [A B]"}},
		{name: "limits", change: func(s *Service) { s.Rlimits = limits }, adds: limitLines},
		{name: "streams", change: func(s *Service) { s.Stdin, s.Stdout, s.Stderr = null, null, again }, drops: []string{"StandardOutput", "StandardError"},
			adds: []string{
				fmt.Sprintf("StandardInputFileDescriptor h %d", fd), fmt.Sprintf("StandardOutputFileDescriptor h %d", fd),
				fmt.Sprintf("StandardErrorFileDescriptor h %d", again.Fd()),
			}},
		{name: "one for both", change: func(s *Service) { s.Stdout, s.Stderr = null, null }, drops: []string{"StandardOutput", "StandardError"},
			adds: []string{fmt.Sprintf("StandardOutputFileDescriptor h %d", fd), "StandardError s inherit"}},
		{name: "names", change: func(s *Service) {
			s.Stdin, s.StdinFile, s.Stdout, s.StdoutFile, s.Stderr, s.StderrFile = null, "/i", null, "/o", null, "/e"
		}, drops: []string{"StandardOutput", "StandardError"},
			adds: []string{"StandardInputFile s /i", "StandardOutputFile s /o", "StandardErrorFile s /e"}},
		{name: "one stream", change: func(s *Service) { s.Stderr = null }, drops: []string{"StandardError"},
			adds: []string{fmt.Sprintf("StandardErrorFileDescriptor h %d", fd)}},
		{name: "journal", change: func(s *Service) { s.Output = unit.OutputJournal }, drops: []string{"StandardOutput", "StandardError"},
			adds: []string{"StandardOutput s journal", "StandardError s journal"}},
		{name: "recorder", change: func(s *Service) { s.StopPost = []string{"/u", "_record", "/d"} },
			adds: []string{"ExecStopPostEx a(sasas) [{/u [/u _record /d] [no-env-expand ignore-failure]}]"}},
		{name: "recorder, before", version: 252, change: func(s *Service) { s.StopPost = []string{"/u", "_record", "/$d"} },
			adds: []string{"ExecStopPost a(sasb) [{/u [/u _record /$$d] true}]"}},
		{name: "privileged recorder", change: func(s *Service) { s.StopPost, s.Privileged, s.UID = []string{"/u", "_record", "/$d"}, true, "nobody" },
			adds: []string{"ExecStopPostEx a(sasas) [{/u [/u _record /$d] [no-env-expand ignore-failure privileged]}]", "User s nobody"}},
		{name: "privileged recorder, before", version: 256, change: func(s *Service) { s.StopPost, s.Privileged, s.UID = []string{"/u", "_record", "/d"}, true, "nobody" },
			adds: []string{"ExecStopPost a(sasb) [{/u [/u _record /d] true}]", "PermissionsStartOnly b true", "User s nobody"}},
		{name: "group", change: func(s *Service) { s.GID = "nogroup" }, adds: []string{"Group s nogroup"}},
		{name: "nice", change: func(s *Service) { s.Nice = &nice }, adds: []string{"Nice i -5"}},
		{name: "guard", change: func(s *Service) { s.Scope, s.GuardPID = "g.scope", 42 }, adds: []string{"BindsTo as [g.scope]", "After as [g.scope]"}},
	} {
		s := plain()
		if c.change != nil {
			c.change(&s)
		}
		l := &link{version: 257, addr: busAt("/b")}
		if c.version != 0 {
			l.version = max(c.version, 0) // -1 stands for a version that was not read
		}
		if c.private {
			l.addr = privateAt("/p")
		}
		want := slices.DeleteFunc(slices.Clone(base), func(line string) bool {
			name, _, _ := strings.Cut(line, " ")
			return slices.Contains(c.drops, name)
		})
		want = append(want, c.adds...)
		if i := slices.Index(want, execStart); i >= 0 && l.version >= versionKeepsFlags {
			want[i] = "ExecStartEx a(sasas) [{/bin/echo [echo hi] [no-env-expand]}]"
		}
		props, auxes := s.properties(l, l.addr.bus)
		got := lines(props)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the properties are\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := len(auxes); (n != 0) != (c.name == "guard") || auxes == nil {
			t.Errorf("%s: %d auxiliary units (nil: %v)", c.name, n, auxes == nil)
		}
	}
}

func TestGuardScope(t *testing.T) {
	s := plain()
	s.Scope, s.GuardPID = GuardScope("abc"), 42
	_, auxes := s.properties(&link{addr: busAt("/b")}, true)
	want := []string{"Description s guard of foo.service", "Slice s app-unitward.slice", "PIDs au [42]", "DefaultDependencies b false", "CollectMode s inactive-or-failed"}
	if len(auxes) != 1 || auxes[0].Name != "unitward-guard-abc.scope" || !slices.Equal(lines(auxes[0].Properties), append(want, "Before as [foo.service]")) {
		t.Errorf("the scope is %+v", auxes)
	}
	s.ScopeEnds = true
	if _, auxes = s.properties(&link{addr: busAt("/b")}, true); !slices.Equal(lines(auxes[0].Properties), append(want, "StopWhenUnneeded b true")) {
		t.Errorf("the scope that ends is %+v", auxes)
	}
	if sig, err := dbus.SignatureOf(auxes); sig != "a(sa(sv))" || err != nil {
		t.Errorf("the signature is %s", sig)
	}
	s.GuardPID = 0
	props, auxes := s.properties(&link{addr: busAt("/b")}, true)
	if got := lines(props); len(auxes) != 0 || !slices.Contains(got, "BindsTo as [unitward-guard-abc.scope]") {
		t.Errorf("bound to a scope that is there: %d auxiliary units, %s", len(auxes), got)
	}
}

// What the user set comes last, so that it counts.
func TestUsersPropertiesComeLast(t *testing.T) {
	s := plain()
	s.Properties = []property.Property{{Name: "KillMode", Value: dbus.MakeVariant("mixed")}, {Name: "Slice", Value: dbus.MakeVariant("x.slice")}}
	props, _ := s.properties(&link{addr: busAt("/b")}, true)
	if got := lines(props[len(props)-2:]); !slices.Equal(got, []string{"KillMode s mixed", "Slice s x.slice"}) {
		t.Errorf("the last are %q", got)
	}
	if sig, err := dbus.SignatureOf(props); sig != "a(sv)" || err != nil {
		t.Errorf("the signature is %s", sig)
	}
}

// The manager expands $ and ${} in arguments, and turns $$ into $; % it
// leaves alone over the bus.
func TestDollarsAreDoubled(t *testing.T) {
	argv := []string{"$", "$$", "${HOME}", "a$b", "%i", "%%", ""}
	got := literal(argv)
	if want := []string{"$$", "$$$$", "$${HOME}", "a$$b", "%i", "%%", ""}; !slices.Equal(got, want) {
		t.Errorf("literal = %q, want %q", got, want)
	}
	if argv[0] != "$" {
		t.Error("the arguments themselves were changed")
	}
	s := plain()
	s.Argv = argv
	props, _ := s.properties(&link{addr: busAt("/b"), version: 252}, true)
	i := slices.IndexFunc(props, func(p property.Property) bool { return p.Name == "ExecStart" })
	cmd := props[i].Value.Value().([]execCommand)[0]
	if cmd.Path != "/bin/echo" || !slices.Equal(cmd.Argv, got) || cmd.IgnoreFailure {
		t.Errorf("ExecStart is %+v", cmd)
	}
}

func TestKeepsCommand(t *testing.T) {
	for _, c := range []struct {
		version int
		path    string
		argv    []string
		want    bool
	}{
		{252, "/usr/bin/sh", []string{"sh", "-c", "echo \"a b\" 'c' \\ %i é\n\t", ""}, true},
		{252, "/usr/bin/sh", []string{"sh", "-c", "a; b"}, false},
		{252, "/usr/bin/sh", []string{"$X"}, false},
		{0, "/usr/bin/sh", []string{"$X"}, false},
		{256, "/usr/bin/sh", []string{";"}, false},
		{247, "/usr/bin/sh", []string{"$X;"}, true},
		{257, "/usr/bin/sh", []string{"$X;"}, true},
		{262, "/opt/a_b-1.2/c++@x:y,z=", []string{"$X;"}, true},
		{262, "/opt/a b", nil, false},
		{247, "/opt/a\"b", nil, false},
		{262, "/opt/a%b", nil, false},
		{262, "/opt/é", nil, false},
	} {
		if got := KeepsCommand(c.version, c.path, c.argv); got != c.want {
			t.Errorf("systemd %d, %s %q: %v, want %v", c.version, c.path, c.argv, got, c.want)
		}
	}
}

func TestMatchRules(t *testing.T) {
	path := unitPath(`a-b\x2dc.service`)
	if _, _, err := (&dbus.Message{Path: path}).Append(nil); path != "/org/freedesktop/systemd1/unit/a_2db_5cx2dc_2eservice" || err != nil {
		t.Errorf("the path is %s, %v", path, err)
	}
	for name, want := range map[string]string{"": "_", "1a1": "_31a1", "\n\xff": "_0a_ff"} {
		if got := pathEscape(name); got != want {
			t.Errorf("the element for %q is %s, want %s", name, got, want)
		}
	}
	for _, rule := range []string{matchUnit(path), matchJobs(`a-b\x2dc.service`)} {
		if strings.Count(rule, "'")%2 != 0 || !strings.Contains(rule, "sender='"+sdName+"'") {
			t.Errorf("the rule %s", rule)
		}
	}
}

func TestWall(t *testing.T) {
	if !wall(0).IsZero() || !wall(unset).IsZero() {
		t.Error("a time that is not set is a time")
	}
	if got := wall(1_700_000_000_000_001); got.UnixMicro() != 1_700_000_000_000_001 {
		t.Errorf("wall = %v", got)
	}
}

func TestPumpIsBounded(t *testing.T) {
	p, f := newPump(), newFollower("a.service")
	p.setOwner(":1.1")
	p.follow(unitPath("a.service"), f)
	for i := range 10 * maxTrail {
		p.DeliverSignal(removed(":1.1", "a.service", fmt.Sprintf("/j/%d", i), "done"))
		p.DeliverSignal(changedSignal(":1.1", "a.service", variants("SubState", subs[i%len(subs)])))
	}
	if n, m := len(f.results), len(f.states()); n != maxTrail || m != maxTrail {
		t.Errorf("%d results and %d states are remembered, at most %d are allowed", n, m, maxTrail)
	}
	if r, ok := f.result("/j/0"); !ok || r != "done" {
		t.Errorf("the start job's result became %q, %v", r, ok)
	}
}
