package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unitward/unitward/dbusclient/property"
)

// line is a command line as people write it for systemd-run, and the same for
// unitward. Words are divided and quoted as in a unit file; UNIT is a name of
// its own for each, DIR a directory of the test.
type line struct {
	theirs string
	// ours is empty where only the program's name changes: "run" for what runs
	// in the foreground, "start" for the rest.
	ours string
	// stdin is what both read.
	stdin string
	// root is for the system manager alone, user for a user manager alone, and
	// since for a systemd-run that has it.
	root, user bool
	since      int
	// slice is a slice to run both programs in, here runs them in DIR; else they
	// run in the root directory.
	slice string
	here  bool
	// differs names the intended difference as unitward-systemd-run(7) does;
	// want is then what each of the two comes to.
	differs string
	want    [2]outcome
	// properties are those that differ on purpose.
	properties string
}

// outcome is what there is to see of a run in the foreground.
type outcome struct {
	code int
	out  string
}

// The kinds of lines.
const (
	lineForeground = "foreground"
	lineBackground = "background"
	lineScoped     = "scope"
	lineTriggered  = "trigger"
	lineRefused    = "refused"
)

// pair is one line run by both programs.
type pair struct {
	w    *ward
	unit [2]string
	argv [2][]string
	// dir is where both run, stdin what both read.
	dir, stdin string
}

func (w *ward) pair(t *testing.T, kind string, n int, l line, dir string) *pair {
	p := &pair{w: w}
	for i := range 2 {
		p.unit[i] = fmt.Sprintf("unitward-line-%d-%s%03d%c", os.Getpid(), kind[:1], n, 'a'+i)
	}
	words := func(i int, text string) []string {
		return property.Words(strings.NewReplacer("UNIT", p.unit[i], "DIR", dir).Replace(text))
	}
	options := map[string][]string{
		lineForeground: {"--wait", "--pipe", "--collect", "--quiet"}, lineScoped: {"--scope", "--quiet"}, lineBackground: {"--quiet"}, lineTriggered: {"--quiet"}, lineRefused: nil,
	}[kind]
	p.argv[0] = append([]string{"systemd-run", manager()}, options...)
	if kind == lineScoped && systemdVersion() >= 254 {
		p.argv[0] = append(p.argv[0], "--expand-environment=no") // before, a scope's arguments were left alone
	}
	p.argv[0] = append(p.argv[0], words(0, l.theirs)...)
	verb := map[string]string{lineForeground: "run", lineScoped: "run", lineBackground: "start", lineTriggered: "start", lineRefused: "start"}[kind]
	ours := append(options, words(1, l.theirs)...)
	if l.ours != "" {
		all := words(1, l.ours)
		verb, ours = all[0], append(options, all[1:]...)
	}
	p.argv[1] = append([]string{program(t), "--state-dir", w.state, verb, manager()}, ours...)
	for i := range p.argv {
		if l.slice != "" {
			p.argv[i] = append([]string{"systemd-run", manager(), "--scope", "--quiet", "--slice", l.slice}, p.argv[i]...)
		}
	}
	p.dir, p.stdin = "/", l.stdin
	if l.here {
		p.dir = dir
	}
	return p
}

func (p *pair) command(i int) *exec.Cmd {
	c := exec.Command(p.argv[i][0], p.argv[i][1:]...)
	c.Env = append(os.Environ(), "GREETING=hello there")
	c.Dir, c.Stdin = p.dir, strings.NewReader(p.stdin)
	c.WaitDelay = patience
	return c
}

func (p *pair) run(t *testing.T, i int) answer {
	t.Helper()
	a, err := perform(p.command(i))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// dropUnits ends units of any type, and drops them.
func dropUnits(names ...string) {
	exec.Command("systemctl", append([]string{manager(), "stop"}, names...)...).Run()
	exec.Command("systemctl", append([]string{manager(), "reset-failed"}, names...)...).Run()
	stamps := "/var/lib/systemd/timers"
	if os.Geteuid() != 0 {
		stamps = filepath.Join(os.Getenv("HOME"), ".local/share/systemd/timers")
	}
	for _, name := range names {
		os.Remove(filepath.Join(stamps, "stamp-"+name)) // of a timer with Persistent=
	}
}

// eachLine runs a test for the lines that are for this user and systemd.
func eachLine(t *testing.T, w *ward, kind string, lines []line, test func(t *testing.T, l line, p *pair)) {
	for n, l := range lines {
		t.Run(shorten(l.theirs), func(t *testing.T) {
			switch root := os.Geteuid() == 0; {
			case l.root && !root, l.user && root:
				t.Skip("user: a line for the other manager")
			case l.since > systemdVersion():
				t.Skipf("version: the systemd-run of %d has no such option, that of %d has", systemdVersion(), l.since)
			}
			dir := t.TempDir()
			os.Chmod(filepath.Dir(dir), 0o755)
			os.Chmod(dir, 0o755)
			p := w.pair(t, kind, n, l, dir)
			for i := range l.want {
				l.want[i].out = strings.ReplaceAll(l.want[i].out, "DIR", dir)
			}
			test(t, l, p)
		})
	}
}

// TestLinesForeground: the same status and the same output.
func TestLinesForeground(t *testing.T) {
	w := newWard(t)
	eachLine(t, w, lineForeground, foregroundLines, func(t *testing.T, l line, p *pair) {
		var got [2]outcome
		for i := range 2 {
			a := p.run(t, i)
			got[i] = outcome{a.code, a.out}
			t.Logf("%s", a)
		}
		switch {
		case l.differs != "" && got != l.want:
			t.Errorf("%+v, want %+v", got, l.want)
		case l.differs == "" && got[0] != got[1]:
			t.Errorf("systemd-run: %+v\nunitward: %+v", got[0], got[1])
		}
		var left string
		if !eventually(func() bool { left = loadedUnits(p.unit[0]+"*", p.unit[1]+"*"); return left == "" }) {
			t.Errorf("units are left: %s", left)
		}
	})
}

// TestLinesBackground: what the options make of the unit is the same.
func TestLinesBackground(t *testing.T) {
	w := newWard(t)
	base := w.pair(t, lineBackground, 999, line{theirs: "-u UNIT sleep 403"}, "/")
	shown := base.shown(t, lineBackground)
	differences(t, shown)
	eachLine(t, w, lineBackground, backgroundLines, func(t *testing.T, l line, p *pair) {
		got := p.shown(t, lineBackground)
		compareChanges(t, l, shown, got)
	})
}

// TestLinesScope: the same for scopes, which run in the foreground.
func TestLinesScope(t *testing.T) {
	w := newWard(t)
	base := w.pair(t, lineScoped, 999, line{theirs: "-u UNIT sleep 404"}, "/")
	shown := base.shown(t, lineScoped)
	eachLine(t, w, lineScoped, scopeLines, func(t *testing.T, l line, p *pair) {
		if strings.HasSuffix(l.theirs, " sleep 404") {
			compareChanges(t, l, shown, p.shown(t, lineScoped))
			return
		}
		var got [2]outcome
		for i := range 2 {
			a := p.run(t, i)
			got[i] = outcome{a.code, a.out}
			t.Logf("%s", a)
		}
		if l.differs != "" && got != l.want || l.differs == "" && got[0] != got[1] {
			t.Errorf("%+v, want %+v", got, l.want)
		}
	})
}

// TestLinesTrigger: timers, paths and sockets.
func TestLinesTrigger(t *testing.T) {
	w := newWard(t)
	eachLine(t, w, lineTriggered, triggerLines, func(t *testing.T, l line, p *pair) {
		type_ := "timer"
		for _, other := range []string{"path", "socket"} {
			if strings.Contains(l.theirs, "--"+other+"-property") {
				type_ = other
			}
		}
		var got [2][]string
		for i := range 2 {
			unit := p.unit[i] + "." + type_
			t.Cleanup(func() { dropUnits(unit, p.unit[i]+".service") })
			if a := p.run(t, i); a.code != 0 {
				t.Fatal(a)
			}
			for _, x := range steadyShow(show(t, unit), p.unit[i]) {
				switch name, _, _ := strings.Cut(x, "="); {
				case name == "CollectMode": // see unitward-systemd-run(7), "defaults"
				case name == "Description" && !strings.Contains(l.theirs, "--description"):
				default:
					got[i] = append(got[i], x)
				}
			}
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("the %s differs\nsystemd-run: %s\nunitward: %s", type_, lacking(got[0], got[1]), lacking(got[1], got[0]))
		}
	})
}

// TestLinesRefused: what both refuse, or unitward alone for a reason, leaves
// nothing.
func TestLinesRefused(t *testing.T) {
	w := newWard(t)
	eachLine(t, w, lineRefused, refusedLines, func(t *testing.T, l line, p *pair) {
		t.Cleanup(func() {
			for _, suffix := range []string{".service", ".scope", ".timer"} {
				dropUnits(p.unit[0]+suffix, p.unit[1]+suffix)
			}
		})
		theirs, ours := p.run(t, 0), p.run(t, 1)
		if ours.code != 125 && ours.code != 126 && ours.code != 127 || !strings.Contains(ours.err, "unitward: cannot ") {
			t.Errorf("not refused: %s", ours)
		}
		if (l.differs != "") != (theirs.code == 0) {
			t.Errorf("intended difference %q, and %s", l.differs, theirs)
		}
		if left := loadedUnits(p.unit[1] + "*"); left != "" {
			t.Errorf("units are left: %s", left)
		}
	})
}

// shown starts a line by both programs, and reads both units while they run.
func (p *pair) shown(t *testing.T, kind string) (got [2][]string) {
	t.Helper()
	suffix := ".service"
	if kind == lineScoped {
		suffix = ".scope"
	}
	for i := range 2 {
		unit := p.unit[i] + suffix
		t.Cleanup(func() { dropUnits(unit) })
		if kind == lineScoped {
			var errs bytes.Buffer
			c := p.command(i)
			c.Stderr = &errs
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			t.Cleanup(func() { dropUnits(unit); <-ended })
			if !eventually(func() bool { return unitState(unit) == "active" || len(ended) > 0 }) || unitState(unit) != "active" {
				t.Fatalf("%s does not run: %s", unit, &errs)
			}
		} else if a := p.run(t, i); a.code != 0 || !eventually(func() bool { return unitState(unit) == "active" }) {
			t.Fatal(a)
		}
		got[i] = steadyShow(show(t, unit), p.unit[i])
	}
	return got
}

func unitState(unit string) string {
	out, _ := exec.Command("systemctl", manager(), "show", "-P", "ActiveState", unit).Output()
	return strings.TrimSpace(string(out))
}

func show(t *testing.T, unit string) string {
	t.Helper()
	out, err := exec.Command("systemctl", manager(), "show", "--all", "--", unit).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("cannot show %s: %s", unit, exit.Stderr)
	}
	return string(out)
}

// steadyShow drops what differs between two runs of one unit.
func steadyShow(text, unit string) []string {
	var kept []string
	for l := range strings.Lines(strings.ReplaceAll(text, unit, "UNIT")) {
		l = strings.TrimSuffix(l, "\n")
		name, value, _ := strings.Cut(l, "=")
		switch name {
		case "After", "Before", "Requires", "Wants", "Conflicts", "RequiresMountsFor", "WantsMountsFor", "Documentation":
			for _, one := range strings.Fields(value) {
				kept = append(kept, name+"="+one)
			}
			continue
		case "InvocationID", "ControlGroup", "ControlGroupId", "MainPID", "CPUUsageNSec", "MemoryCurrent", "MemoryPeak", "MemoryAvailable", "TasksCurrent",
			"EffectiveMemoryMax", "EffectiveMemoryHigh", "EffectiveTasksMax", "UID", "GID", "Job", "Refs", "StatusErrno", "NextElapseUSecMonotonic", "NextElapseUSecRealtime",
			"LastTriggerUSec", "LastTriggerUSecMonotonic", "MemorySwapCurrent", "MemorySwapPeak", "MemoryZSwapCurrent", "SubState", "Controller":
			continue
		}
		if strings.Contains(name, "Timestamp") || strings.HasPrefix(name, "ExecMain") || strings.HasPrefix(name, "IPIngress") || strings.HasPrefix(name, "IPEgress") ||
			strings.HasPrefix(name, "IORead") || strings.HasPrefix(name, "IOWrite") && strings.HasSuffix(name, "s") {
			continue
		}
		if i := strings.Index(l, "next_elapse="); i >= 0 {
			l = l[:i] // dates of a timer
		}
		l, _, _ = strings.Cut(l, " ; start_time=")
		kept = append(kept, l)
	}
	slices.Sort(kept)
	return kept
}

func lacking(from, in []string) string {
	var out []string
	for _, l := range from {
		if !slices.Contains(in, l) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n\t")
}

// compareChanges wants that what the options of a line change in the unit of
// either program, as against the unit without them, holds in that of the other.
func compareChanges(t *testing.T, l line, base, got [2][]string) {
	t.Helper()
	var missing [2][]string
	for i := range 2 {
		for _, x := range got[i] {
			name, _, _ := strings.Cut(x, "=")
			if slices.Contains(base[i], x) || slices.Contains(got[1-i], x) || slices.Contains(strings.Fields(l.properties), name) || strings.HasPrefix(name, "ExecStart") {
				continue
			}
			missing[i] = append(missing[i], x)
		}
	}
	if missing[0] != nil || missing[1] != nil {
		t.Errorf("systemd-run alone changes\n\t%s\nunitward alone changes\n\t%s", strings.Join(missing[0], "\n\t"), strings.Join(missing[1], "\n\t"))
	}
	t.Logf("%s", lacking(got[1], base[1]))
}

// differences wants the two units without options to differ in nothing but what
// the manual says.
func differences(t *testing.T, shown [2][]string) {
	t.Helper()
	for _, x := range strings.Split(lacking(shown[1], shown[0]), "\n\t") {
		name, _, _ := strings.Cut(x, "=")
		if base := strings.TrimSuffix(name, "Soft"); strings.HasPrefix(base, "Limit") || slices.Contains(strings.Fields(differentDefaults), name) {
			continue
		}
		t.Errorf("unitward's unit has %s, which systemd-run's has not", x)
	}
}

// differentDefaults are the properties that a service of unitward has in other
// values than one of systemd-run: "defaults" in unitward-systemd-run(7).
const differentDefaults = "Id Names Description Slice Type CollectMode IgnoreSIGPIPE TimeoutStopUSec TimeoutAbortUSec ExecStart ExecStartEx ExecStopPost ExecStopPostEx " +
	"Environment EnvironmentFiles UnsetEnvironment WorkingDirectory UMask StandardOutput StandardError StandardInput FragmentPath Requires After RequiresMountsFor " +
	"Perpetual Transient Refs DropInPaths NeedDaemonReload"
