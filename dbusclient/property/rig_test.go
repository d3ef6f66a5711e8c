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
// manager has refused it: a wrong Since fails, and so does what it does not know.
func TestRigAgainstSystemdRun(t *testing.T) {
	r := newRig(t)
	r.dir = t.TempDir()
	plain := map[string]*pair{}
	var all []*pair
	for i, unit := range []string{property.Service, "timer", "path", "socket"} {
		plain[unit] = r.start(t, rigCase{unit: unit}, len(rigCases)+i)
		all = append(all, plain[unit])
	}
	r.each(t, len(rigCases), func(i int) { r.pairs[i] = r.start(t, rigCases[i], i) })
	r.show(t, append(all, r.pairs...))

	for i, p := range r.pairs {
		rc := rigCases[i]
		t.Run(rc.unit+" "+strings.Join(rc.assign, ","), func(t *testing.T) {
			r.compare(t, rc, p, plain[rc.unit])
		})
	}
}

// Every property of a timer, path or socket has a case of its own.
func TestRigCasesHaveEveryTrigger(t *testing.T) {
	had := map[string]bool{}
	for _, rc := range triggerCases {
		for _, a := range rc.assign {
			name, _, _ := strings.Cut(a, "=")
			had[rc.unit+" "+name] = true
		}
	}
	for _, unit := range []string{"timer", "path", "socket"} {
		for _, name := range property.Names(unit) {
			// The others are those of services, which have their cases.
			if !slices.Contains(property.Names(property.Service), name) && !had[unit+" "+name] {
				t.Errorf("%s of a %s has no case", name, unit)
			}
		}
	}
}

type exec1 struct {
	Path   string
	Args   []string
	Ignore bool
}

// aux is a unit that is made together with another.
type aux struct {
	Name  string
	Props []theirs
}

// service is what a unit runs, or what a trigger starts.
func service() []property.Property {
	// RemainAfterExit keeps the unit loaded after its command.
	return []property.Property{
		{Name: "Description", Value: dbus.MakeVariant("rig")},
		{Name: "RemainAfterExit", Value: dbus.MakeVariant(true)},
		{Name: "ExecStart", Value: dbus.MakeVariant([]exec1{{"/bin/true", []string{"/bin/true"}, false}})},
	}
}

// bases are what a unit of each type needs to start, and then does not do.
var bases = map[string][]string{
	"timer":  {"OnActiveSec=299d"},
	"path":   {"PathExists=/none/base"},
	"socket": {"ListenStream=@UNIT"},
}

func (r *rig) start(t *testing.T, rc rigCase, n int) *pair {
	p := &pair{rigCase: rc, name: [2]string{r.name(n, "a"), r.name(n, "b")}}
	cmd := []string{r.mode, "--quiet", "--no-block", "--description=rig", "--unit=" + p.name[1], "-pRemainAfterExit=yes"}
	option, auxiliary := "--property", []aux{}
	props := service()
	if rc.unit != property.Service {
		auxiliary = append(auxiliary, aux{p.name[0] + ".service", sendable(props)})
		props = props[:1]
		option = "--" + rc.unit + "-property"
	}
	all := append(slices.Clone(bases[rc.unit]), rc.assign...)
	if rc.unit == "timer" {
		// systemd-run sets it, too.
		all = append([]string{"RemainAfterElapse=no"}, all...)
	}
	for i, a := range all {
		ps, err := property.ConvertIn(rc.unit, r.own(a, p.name[0]))
		if err != nil {
			p.err[0] = err
			return p
		}
		p.since = max(p.since, property.Since(rc.unit, a))
		props = append(props, ps...)
		if rc.say != "" && i == len(all)-1 {
			a = rc.say
		}
		cmd = append(cmd, option+"="+r.own(a, p.name[1]))
	}
	p.err[0] = r.call("StartTransientUnit", p.unitOf(0), "fail", sendable(props), auxiliary)
	run := exec.Command("systemd-run", append(cmd, "/bin/true")...)
	if out, err := run.CombinedOutput(); err != nil {
		p.err[1] = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return p
}

// own puts the names of one of the two units into an assignment.
func (r *rig) own(assignment, name string) string {
	return strings.NewReplacer("UNIT", name, "DIR", r.dir).Replace(assignment)
}

// show reads what systemctl says of every unit, in one call, and the files
// that the manager wrote for them.
func (r *rig) show(t *testing.T, pairs []*pair) {
	args := []string{r.mode, "show", "--all", "--"}
	for _, p := range pairs {
		args = append(args, p.unitOf(0), p.unitOf(1))
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
				return strings.Split(strings.ReplaceAll(text, p.name[k], "UNIT"), "\n")
			}
			p.shown[k] = steady(neutral(blocks[2*i+k]))
			text, err := os.ReadFile(filepath.Join(directory, p.unitOf(k)))
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
			for _, one := range set {
				kept = append(kept, name+"="+one)
			}
			continue
		case "InvocationID", "ControlGroup", "ControlGroupId", "ActiveState", "SubState", "Result", "Job", "MainPID",
			"ControlPID", "ConditionResult", "AssertResult", "NRestarts", "StatusErrno", "StatusText", "UID", "GID",
			"NFileDescriptorStore", "CPUUsageNSec", "EffectiveMemoryMax", "EffectiveMemoryHigh", "EffectiveTasksMax",
			"MemoryAvailable", "MemoryCurrent", "MemoryPeak", "TasksCurrent", "EffectiveCPUs", "EffectiveMemoryNodes",
			"MemorySwapCurrent", "MemorySwapPeak", "MemoryZSwapCurrent", "IPIngressBytes", "IPIngressPackets", "IPEgressBytes", "IPEgressPackets",
			"IOReadBytes", "IOReadOperations", "IOWriteBytes", "IOWriteOperations", "Refs", "Controller":
			continue
		}
		if strings.Contains(name, "Timestamp") && name != "Timestamping" || strings.HasPrefix(name, "NextElapse") || strings.HasPrefix(name, "ExecMain") || name == "ExecStart" || name == "ExecStartEx" {
			continue
		}
		line, _, _ = strings.Cut(line, " ; start_time=")
		line, _, _ = strings.Cut(line, " ; next_elapse=")
		kept = append(kept, line)
	}
	return kept
}

func (r *rig) compare(t *testing.T, rc rigCase, p, base *pair) {
	if err := property.SupportedIn(rc.unit, rc.assign, r.version); (err != nil) != (p.since > r.version) {
		t.Errorf("supported: %v, and it is there since %d", err, p.since)
	}
	if p.since > r.version {
		if p.err[0] == nil {
			t.Errorf("Since says %d, but systemd %d accepts it", p.since, r.version)
		}
		t.Skipf("systemd %d has no such property (since %d): %v", r.version, p.since, p.err[0])
	}
	if rc.since > r.version {
		if p.err[0] != nil {
			t.Errorf("systemd %d refuses it, and nobody says which has it: %v", r.version, p.err[0])
		}
		t.Skipf("version: not to be compared on systemd %d (since %d); systemd-run: %v", r.version, rc.since, p.err[1])
	}
	if rc.bug == r.version {
		if p.err[0] == nil || p.err[1] == nil || !strings.Contains(p.err[1].Error(), p.err[0].Error()) {
			t.Errorf("systemd %d does not refuse both: %v, %v", r.version, p.err[0], p.err[1])
		}
		t.Skipf("version: systemd %d refuses it: %v", r.version, p.err[0])
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
	ours, theirs := without(p.shown[0], base.shown[0]), without(p.shown[1], base.shown[1])
	oursFile, theirsFile := without(p.file[0], base.file[0]), without(p.file[1], base.file[1])
	if rc.unsaid > 0 && r.version >= rc.unsaid {
		if p.err[0] != nil || !rc.same && (len(ours) == 0 || len(oursFile) == 0 || p.err[1] == nil && slices.Equal(ours, theirs)) {
			t.Errorf("ours: %v %v %v\nsystemd-run: %v %v", p.err[0], ours, oursFile, p.err[1], theirs)
		}
		t.Logf("%s | %s", strings.Join(ours, " "), strings.Join(oursFile, " "))
		return
	}
	if p.err[0] != nil || p.err[1] != nil && !p.made() {
		t.Fatalf("ours: %v\nsystemd-run: %v", p.err[0], p.err[1])
	}
	if !slices.Equal(ours, theirs) {
		t.Errorf("systemctl show differs\nours:\n\t%s\nsystemd-run:\n\t%s", strings.Join(ours, "\n\t"), strings.Join(theirs, "\n\t"))
	}
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
