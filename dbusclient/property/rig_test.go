package property_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
)

// TestRigAgainstSystemdRun starts, for each case, one unit with our properties
// and one with systemd-run, and compares what systemctl and the unit file in
// /run say of both. A case that this systemd lacks is skipped only after the
// manager has refused it: a wrong Since fails.
func TestRigAgainstSystemdRun(t *testing.T) {
	r := newRig(t)
	base := r.start(t, rigCase{}, 0)
	r.each(t, func(i int) { r.pairs[i] = r.start(t, rigCases[i], i+1) })
	all := append([]*pair{base}, r.pairs...)
	r.show(t, all)

	for i, p := range r.pairs {
		t.Run(strings.Join(rigCases[i].assign, ","), func(t *testing.T) {
			r.compare(t, rigCases[i], p, base)
		})
	}
}

func (r *rig) start(t *testing.T, rc rigCase, n int) *pair {
	p := &pair{unit: [2]string{r.name(n, "a"), r.name(n, "b")}}
	type exec1 struct {
		Path   string
		Args   []string
		Ignore bool
	}
	// RemainAfterExit keeps the unit loaded after its command.
	props := []property.Property{
		{Name: "Description", Value: dbus.MakeVariant("rig")},
		{Name: "RemainAfterExit", Value: dbus.MakeVariant(true)},
		{Name: "ExecStart", Value: dbus.MakeVariant([]exec1{{"/bin/true", []string{"/bin/true"}, false}})},
	}
	cmd := []string{r.mode, "--quiet", "--no-block", "--description=rig", "--unit=" + p.unit[1], "-pRemainAfterExit=yes"}
	for _, a := range rc.assign {
		name, value, _ := strings.Cut(a, "=")
		ps, err := property.Convert(name, value)
		if err != nil {
			p.err[0] = err
			return p
		}
		p.since = max(p.since, property.Since(name))
		for _, q := range ps {
			p.since = max(p.since, property.Since(q.Name))
		}
		props = append(props, ps...)
		if rc.say != "" {
			a = rc.say
		}
		cmd = append(cmd, "-p", a)
	}
	type aux struct {
		Name  string
		Props []theirs
	}
	p.err[0] = r.call("StartTransientUnit", p.unit[0], "fail", sendable(props), []aux{})
	run := exec.Command("systemd-run", append(cmd, "/bin/true")...)
	if out, err := run.CombinedOutput(); err != nil {
		p.err[1] = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return p
}

// show reads what systemctl says of every unit, in one call, and the files
// that the manager wrote for them.
func (r *rig) show(t *testing.T, pairs []*pair) {
	args := []string{r.mode, "show", "--all", "--"}
	for _, p := range pairs {
		args = append(args, p.unit[0], p.unit[1])
	}
	out, err := exec.Command("systemctl", args...).Output()
	if err != nil {
		t.Fatalf("cannot run systemctl show: %v %s", err, err.(*exec.ExitError).Stderr)
	}
	blocks := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n\n")
	if len(blocks) != 2*len(pairs) {
		t.Fatalf("systemctl show gave %d blocks for %d units", len(blocks), 2*len(pairs))
	}
	directory := "/run/systemd/transient"
	if r.mode == "--user" {
		directory = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd/transient")
	}
	for i, p := range pairs {
		for k := range 2 {
			neutral := func(text string) []string {
				return strings.Split(strings.ReplaceAll(text, strings.TrimSuffix(p.unit[k], ".service"), "UNIT"), "\n")
			}
			p.shown[k] = steady(neutral(blocks[2*i+k]))
			text, err := os.ReadFile(filepath.Join(directory, p.unit[k]))
			if err == nil {
				p.file[k] = neutral(string(text))
			}
		}
	}
}

// steady drops the lines that differ between two runs of one unit, and the
// parts of a command's line that do.
func steady(lines []string) []string {
	var kept []string
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "After", "Before", "Requires", "Wants", "Conflicts", "RequiresMountsFor", "WantsMountsFor":
			// Sets, which every version prints in the order of a hash.
			set := strings.Fields(value)
			slices.Sort(set)
			line = name + "=" + strings.Join(set, " ")
		case "InvocationID", "ControlGroup", "ControlGroupId", "ActiveState", "SubState", "Result", "Job", "MainPID",
			"ControlPID", "ConditionResult", "AssertResult", "NRestarts", "StatusErrno", "StatusText", "UID", "GID",
			"NFileDescriptorStore", "CPUUsageNSec", "EffectiveMemoryMax", "EffectiveMemoryHigh", "EffectiveTasksMax",
			"MemoryAvailable", "MemoryCurrent", "MemoryPeak", "TasksCurrent", "EffectiveCPUs", "EffectiveMemoryNodes":
			continue
		}
		if strings.Contains(name, "Timestamp") || strings.HasPrefix(name, "ExecMain") || name == "ExecStart" || name == "ExecStartEx" {
			continue
		}
		line, _, _ = strings.Cut(line, " ; start_time=")
		kept = append(kept, line)
	}
	return kept
}

func (r *rig) compare(t *testing.T, rc rigCase, p, base *pair) {
	if p.since > r.version {
		if p.err[0] == nil {
			t.Errorf("Since says %d, but systemd %d accepts it", p.since, r.version)
		}
		t.Skipf("systemd %d has no such property (since %d): %v", r.version, p.since, p.err[0])
	}
	if rc.since > r.version {
		t.Skipf("version: not to be compared on systemd %d (since %d); ours: %v; systemd-run: %v", r.version, rc.since, p.err[0], p.err[1])
	}
	if rc.system > 0 && r.version >= rc.system && r.mode == "--user" {
		if p.err[0] == nil {
			t.Errorf("the user manager accepts it")
		}
		t.Skipf("scope: only a system manager has it: %v", p.err[0])
	}
	if rc.alone {
		if changed := without(p.shown[0], base.shown[0]); p.err[0] != nil || len(changed) > 0 {
			t.Errorf("the reset did not work: %v %v", p.err[0], changed)
		}
		return
	}
	if p.err[0] != nil || p.err[1] != nil {
		t.Fatalf("ours: %v\nsystemd-run: %v", p.err[0], p.err[1])
	}
	ours, theirs := without(p.shown[0], base.shown[0]), without(p.shown[1], base.shown[1])
	if !slices.Equal(ours, theirs) {
		t.Errorf("systemctl show differs\nours:\n\t%s\nsystemd-run:\n\t%s", strings.Join(ours, "\n\t"), strings.Join(theirs, "\n\t"))
	}
	oursFile, theirsFile := without(p.file[0], base.file[0]), without(p.file[1], base.file[1])
	if r.version >= rc.file && !slices.Equal(oursFile, theirsFile) {
		t.Errorf("the unit file differs\nours:\n\t%s\nsystemd-run:\n\t%s", strings.Join(oursFile, "\n\t"), strings.Join(theirsFile, "\n\t"))
	}
	if len(ours)+len(oursFile) == 0 && !rc.same {
		t.Errorf("the property changed nothing that can be seen")
	}
	t.Logf("%s | %s", strings.Join(ours, " "), strings.Join(oursFile, " "))
}

func without(lines, base []string) []string {
	var rest []string
	for _, l := range lines {
		if l != "" && !slices.Contains(base, l) {
			rest = append(rest, l)
		}
	}
	return rest
}
