package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// name is the name of a unit of a kind of line.
func (p *pair) name(i int, kind string) string {
	if kind == lineScoped {
		return p.unit[i] + ".scope"
	}
	return p.unit[i] + ".service"
}

// shown starts a line by both programs, and reads both units while they run.
func (p *pair) shown(t *testing.T, kind string) (got [2][]string) {
	t.Helper()
	for i := range 2 {
		unit := p.name(i, kind)
		drop := func() {
			if !p.ended {
				dropUnits(unit)
			}
		}
		t.Cleanup(drop)
		if kind != lineBackground {
			var errs bytes.Buffer
			c := p.command(i)
			c.Stderr = &errs
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			t.Cleanup(func() { drop(); <-ended })
			if !eventually(func() bool { return unitState(unit) == "active" || len(ended) > 0 }) || unitState(unit) != "active" {
				t.Fatalf("%s does not run: %s", unit, &errs)
			}
		} else if a := p.run(t, i); a.code != 0 || !eventually(func() bool { return unitState(unit) == "active" }) {
			t.Fatal(a)
		}
		text := show(t, unit)
		got[i] = steadyShow(text, p.unit[i])
		_, group, _ := strings.Cut(text, "\nControlGroup=")
		p.group[i], _, _ = strings.Cut(group, "\n")
	}
	theirs, _ := executes(got[0])
	if ours, keeps := executes(got[1]); !keeps && ours != theirs {
		t.Errorf("systemd-run's unit executes %s\nunitward's executes %s", theirs, ours)
	}
	var commands [2][]string
	if !eventually(func() bool {
		for i := range 2 {
			commands[i] = nil
			for _, argv := range p.processes(t, i) {
				if argv[0] = filepath.Base(argv[0]); argv[0] != filepath.Base(program(t)) { // a keeper is one, too
					commands[i] = append(commands[i], fmt.Sprintf("%q", argv))
				}
			}
			slices.Sort(commands[i])
		}
		return commands[0] != nil && slices.Equal(commands[0], commands[1])
	}) {
		t.Errorf("systemd-run runs %s\nunitward runs %s", commands[0], commands[1])
	}
	return got
}

// processes are the argument vectors of all in a unit that was shown, by pid.
func (p *pair) processes(t *testing.T, i int) map[int][]string {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(cgroupMount(), p.group[i], "cgroup.procs"))
	if err != nil || p.group[i] == "" {
		t.Fatalf("the cgroup %q of %s: %v", p.group[i], p.unit[i], err)
	}
	all := map[int][]string{}
	for field := range strings.FieldsSeq(string(list)) {
		b, err := os.ReadFile("/proc/" + field + "/cmdline")
		if pid, _ := strconv.Atoi(field); err == nil && len(b) > 0 {
			all[pid] = strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		}
	}
	return all
}

// end stops both units, each by its own means, and wants nothing left of them.
func (p *pair) end(t *testing.T, kind string) {
	t.Helper()
	pids := [2][]int{}
	for i := range 2 {
		pids[i] = slices.Collect(maps.Keys(p.processes(t, i)))
	}
	shell(t, "systemctl", manager(), "stop", p.name(0, kind))
	p.w.want(0, "stop", "-q", p.unit[1])
	for i := range 2 {
		p.nothingLeft(t, p.unit[i], pids[i]...)
	}
	p.ended = true
}

// nothingLeft wants no unit, no file of one, none of ours, and none of the
// processes.
func (p *pair) nothingLeft(t *testing.T, unit string, pids ...int) {
	t.Helper()
	var left []string
	if !eventually(func() bool {
		left = strings.Fields(loadedUnits(unit + "*"))
		for _, dir := range []string{"/run", os.Getenv("XDG_RUNTIME_DIR")} {
			files, _ := filepath.Glob(filepath.Join(dir, "systemd/transient", unit+"*"))
			left = append(left, files...)
		}
		for _, f := range runtimeFiles() {
			if !slices.Contains(p.before, f) {
				left = append(left, f)
			}
		}
		for _, pid := range pids {
			if stateOf(pid) != "" {
				left = append(left, fmt.Sprint("process ", pid))
			}
		}
		return len(left) == 0
	}) {
		t.Errorf("of %s is left: %q", unit, left)
	}
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

// nonce is what tells the files and the guard of one job from those of another.
var nonce = regexp.MustCompile(`[0-9a-f]{32}`)

// executes is the argument vector of a unit, and whether it is unitward that it
// executes, which does the rest.
func executes(shown []string) (argv string, keeps bool) {
	for _, l := range shown {
		if rest, ok := strings.CutPrefix(l, "ExecStart={ path="); ok {
			_, argv, _ = strings.Cut(rest, "argv[]=")
			argv, _, _ = strings.Cut(argv, " ; ignore_errors=")
		}
	}
	program, arguments, _ := strings.Cut(argv, " ")
	program = filepath.Base(program)
	return program + " " + arguments, program == "unitward"
}

// steadyShow drops what differs between two runs of one unit.
func steadyShow(text, unit string) []string {
	var kept []string
	text = nonce.ReplaceAllString(strings.ReplaceAll(text, unit, "UNIT"), "NONCE")
	for l := range strings.Lines(text) {
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
			"LastTriggerUSec", "LastTriggerUSecMonotonic", "MemorySwapCurrent", "MemorySwapPeak", "MemoryZSwapCurrent", "SubState", "Controller",
			"IPIngressBytes", "IPIngressPackets", "IPEgressBytes", "IPEgressPackets", "IOReadBytes", "IOReadOperations", "IOWriteBytes", "IOWriteOperations":
			continue
		}
		if strings.Contains(name, "Timestamp") || strings.HasPrefix(name, "ExecMain") {
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
