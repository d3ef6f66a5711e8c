package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	// group are the cgroups of the units, once they were shown.
	group [2]string
	// dir is where both run, stdin what both read.
	dir, stdin string
	// before are the files that were there for other jobs.
	before []string
	// ended is true once both units were stopped.
	ended bool
}

func (w *ward) pair(t *testing.T, kind string, n int, l line, dir string) *pair {
	p := &pair{w: w, before: runtimeFiles()}
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
	for _, name := range names { // the systemctl of 262 stops none where one is not loaded
		exec.Command("systemctl", manager(), "stop", "--", name).Run()
	}
	exec.Command("systemctl", append([]string{manager(), "reset-failed", "--"}, names...)...).Run()
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

// TestLinesForeground: the same status and the same output, and of what lasts the
// same unit.
func TestLinesForeground(t *testing.T) {
	w := newWard(t)
	base := w.pair(t, lineForeground, 999, line{theirs: "-u UNIT sleep 406"}, "/").shown(t, lineForeground)
	eachLine(t, w, lineForeground, foregroundLines, func(t *testing.T, l line, p *pair) {
		if strings.HasSuffix(l.theirs, " sleep 406") {
			compareChanges(t, l, base, p.shown(t, lineForeground))
			p.end(t, lineForeground)
			return
		}
		var got [2]outcome
		var errs [2]string
		for i := range 2 {
			a := p.run(t, i)
			got[i], errs[i] = outcome{a.code, a.out}, a.err
			t.Logf("%s", a)
		}
		switch {
		case errs[0] != errs[1]:
			t.Errorf("on standard error systemd-run: %q\nunitward: %q", errs[0], errs[1])
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

// TestLinesBackground: what the options make of the unit is the same, and so is
// what runs in it, and what is left of it.
func TestLinesBackground(t *testing.T) {
	wire := newWire(t)
	t.Setenv("PATH", wire.dir+":"+os.Getenv("PATH")) // older ones know no SYSTEMD_SSH
	w := newWard(t)
	base := w.pair(t, lineBackground, 999, line{theirs: "-u UNIT sleep 403"}, "/")
	shown := base.shown(t, lineBackground)
	differences(t, shown)
	eachLine(t, w, lineBackground, backgroundLines, func(t *testing.T, l line, p *pair) {
		compareChanges(t, l, shown, p.shown(t, lineBackground))
		p.end(t, lineBackground)
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
			p.end(t, lineScoped)
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

// TestLinesFired: what a trigger has started was given the same, and nothing is
// left of it.
func TestLinesFired(t *testing.T) {
	w := newWard(t)
	eachLine(t, w, lineTriggered, firedLines, func(t *testing.T, l line, p *pair) {
		dir := filepath.Dir(p.argv[0][slices.IndexFunc(p.argv[0], func(s string) bool { return filepath.Base(s) == "script" })])
		script := `echo "$2 $3 $# in $(pwd), ${LISTEN_FDS-no} descriptors" >$1.new; mv $1.new $1.said; exec sleep 407`
		if err := os.WriteFile(filepath.Join(dir, "script"), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		var said [2]string
		for i := range 2 {
			unit, file := p.unit[i], filepath.Join(dir, p.unit[i])
			type_ := "timer"
			t.Cleanup(func() { dropUnits(unit+"."+type_, unit+".service") })
			if a := p.run(t, i); a.code != 0 {
				t.Fatal(a)
			}
			switch {
			case strings.Contains(l.theirs, "--path-property"):
				type_ = "path"
				touch(t, file+".there")
			case strings.Contains(l.theirs, "--socket-property"):
				type_ = "socket"
				c, err := net.Dial("unix", filepath.Join(dir, "s"))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
			said[i] = fileOf(t, file+".said")
			if state := unitState(unit + ".service"); state != "active" {
				t.Errorf("%s.service is %s", unit, state)
			}
			pid := alive(t, "sleep", "407")
			shell(t, "systemctl", manager(), "stop", unit+"."+type_)
			shell(t, "systemctl", manager(), "stop", unit+".service")
			w.want(0, "list") // which drops the file of a trigger that is gone
			p.nothingLeft(t, unit, pid)
		}
		if said[0] != said[1] {
			t.Errorf("of systemd-run it is given %s\nof unitward %s", said[0], said[1])
		}
	})
}

// TestLinesRefused: what both refuse, or unitward alone for a reason, leaves
// nothing.
func TestLinesRefused(t *testing.T) {
	w := newWard(t)
	eachLine(t, w, lineRefused, refusedLines, func(t *testing.T, l line, p *pair) {
		t.Cleanup(func() {
			// What was taken after all may have any suffix, or two, and a prefix.
			made := []string{"*" + p.unit[0] + "*", "*" + p.unit[1] + "*"}
			for _, unit := range strings.Split(loadedUnits(made...), "\n") {
				if name, _, _ := strings.Cut(unit, " "); name != "" {
					dropUnits(name)
				}
			}
			var left string
			if !eventually(func() bool { left = loadedUnits(made...); return left == "" }) {
				t.Errorf("units are left: %s", left)
			}
		})
		theirs, ours := p.run(t, 0), p.run(t, 1)
		if ours.code != 125 && ours.code != 126 && ours.code != 127 || !strings.Contains(ours.err, "unitward: cannot ") {
			t.Errorf("not refused: %s", ours)
		}
		if (l.differs != "") != (theirs.code == 0) {
			t.Errorf("intended difference %q, and %s", l.differs, theirs)
		}
		if left := loadedUnits("*" + p.unit[1] + "*"); left != "" {
			t.Errorf("units are left: %s", left)
		}
	})
}

// TestSystemdRunOptions holds the list that the manual is held against, of the
// newest systemd-run, against what it says itself; older ones have no other.
func TestSystemdRunOptions(t *testing.T) {
	needRig(t)
	list, err := os.ReadFile("testdata/systemd-run.options")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(list))
	help := shell(t, "systemd-run", "--help")
	var has []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-(\w) )?--([\w-]+)`).FindAllStringSubmatch(help, -1) {
		name := m[2]
		if m[1] != "" {
			name += "," + m[1]
		}
		if name != "help,h" && name != "version" {
			has = append(has, name)
		}
	}
	for _, name := range has {
		if !slices.Contains(known, name) {
			t.Errorf("systemd-run %d has --%s", systemdVersion(), name)
		}
	}
	for _, name := range known {
		if systemdVersion() >= 262 && !slices.Contains(has, name) {
			t.Errorf("systemd-run %d has no --%s", systemdVersion(), name)
		}
	}
	if len(has) < 35 {
		t.Errorf("%d options are found in %s", len(has), help)
	}
}
