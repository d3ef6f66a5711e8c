package property_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient/property"
)

// batch is what is said of one unit at a time.
type batch []rigCase

func (b batch) String() string {
	var all []string
	for _, rc := range b {
		all = append(all, rc.assign...)
	}
	return strings.Join(all, ", ")
}

// batches puts cases together, of which no two have a property in common. What
// often keeps a service from starting is alone.
func batches(cases []rigCase) []batch {
	const most = 20
	var all, single []batch
next:
	for _, rc := range cases {
		if rc.breaks() {
			single = append(single, batch{rc})
			continue
		}
		for i, b := range all {
			if len(b) < most && !b.has(rc) {
				all[i] = append(b, rc)
				continue next
			}
		}
		all = append(all, batch{rc})
	}
	return append(all, single...)
}

func (r rigCase) breaks() bool {
	name, value, _ := strings.Cut(r.assign[0], "=")
	for _, prefix := range []string{"RootHash", "RootVerity", "RootMStack", "RootImage", "Extension", "MountImages", "IPCNamespace", "NetworkNamespace", "UserNamespace",
		"SELinux", "AppArmor", "Smack", "BPF", "IPEgress", "IPIngress", "SocketBind", "RestrictFileSystems", "RestrictNetworkInterfaces", "Private", "Protect", "TTYPath",
		"LoadCredential", "SetCredential", "ImportCredential", "LogNamespace", "NUMA", "CPUAffinity", "AmbientCapabilities", "ExecSearchPath", "BindNetworkInterface", "NFTSet"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.Contains(value, "/none") || strings.Contains(value, "/a b") || len(r.assign) > 2
}

func (b batch) has(rc rigCase) bool {
	return slices.ContainsFunc(b, func(other rigCase) bool {
		return slices.ContainsFunc(other.assign, func(a string) bool {
			name, _, _ := strings.Cut(a, "=")
			return slices.ContainsFunc(rc.assign, func(a string) bool { return strings.HasPrefix(a, name+"=") })
		})
	})
}

// allowed are the cases that a user may say of a unit of that type, and that can
// be compared here. With another user or root directory a job is another one
// (tests/e2e has those), 4096 bytes are too few for any, in /opt is what the rig has
// of unitward, and a user's ProtectHome=yes is refused.
func (r *rig) allowed(unit string) []rigCase {
	var all []rigCase
next:
	for _, rc := range rigCases {
		if rc.unit != property.Service || rc.alone || rc.since > r.version || rc.bug == r.version || rc.say != "" || rc.unsaid > 0 && r.version >= rc.unsaid ||
			rc.system > 0 && r.mode == "--user" || property.SupportedIn(unit, rc.assign, r.version) != nil {
			continue
		}
		for _, a := range rc.assign {
			name, _, _ := strings.Cut(a, "=")
			if property.Reserved(name) != nil || unit == property.Scope && property.OfScope([]string{a}) != nil ||
				slices.Contains([]string{"User", "Group", "DynamicUser", "RootDirectory", "RootImage"}, name) || a == "MemoryMax=4096" || strings.HasSuffix(a, "+/opt") ||
				a == "PrivateUsers=managed" || a == "ProtectHome=yes" && r.mode == "--user" {
				continue next
			}
		}
		all = append(all, rc)
	}
	return all
}

// program runs unitward and systemd-run, and counts.
type program struct {
	*rig
	state    string
	scope    bool
	base     [2][]string
	n        int
	compared int
}

// TestRigServicesByTheProgram has unitward itself start services with what a user
// may set, and compares them with those of systemd-run.
func TestRigServicesByTheProgram(t *testing.T) {
	byTheProgram(t, property.Service, 200)
}

// TestRigScopesByTheProgram is the same for scopes.
func TestRigScopesByTheProgram(t *testing.T) {
	byTheProgram(t, property.Scope, 80)
}

func byTheProgram(t *testing.T, unit string, atLeast int) {
	r := newRig(t)
	p := &program{rig: r, state: private(t), scope: unit == property.Scope}
	cases := r.allowed(unit)
	if p.base = p.both(t, nil); t.Failed() {
		return
	}
	for _, b := range batches(cases) {
		p.compare(t, b)
	}
	t.Logf("%d of %d cases were compared, with %d units", p.compared, len(cases), p.n)
	if p.compared < atLeast {
		t.Errorf("only %d cases were compared", p.compared)
	}
}

// TestRigRefusedByTheProgram holds that what is newer than this systemd, be it a
// property or a value, is refused by unitward with the version that has it.
func TestRigRefusedByTheProgram(t *testing.T) {
	r := newRig(t)
	state := private(t)
	for _, unit := range []string{property.Service, property.Scope} {
		for _, rc := range rigCases {
			err := property.SupportedIn(unit, rc.assign, r.version)
			var lacks *property.VersionError
			if name, _, _ := strings.Cut(rc.assign[0], "="); rc.unit != property.Service || property.Reserved(name) != nil || !errors.As(err, &lacks) {
				continue
			}
			if unit == property.Scope && lacks.Name != "OOMPolicy" || unit == property.Service && !strings.Contains(lacks.Name, "=") && lacks.Since < 260 {
				continue // the same as for services, and enough of these
			}
			name := r.name(0, "refused")
			args := []string{"--state-dir", state, "start", r.mode, "--isolation", unit, "--unit", name, "-p", rc.assign[0], "--", "sleep", "600"}
			out, err := exec.Command(os.Getenv("UNITWARD_BIN"), args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "unitward: "+lacks.Error()+"\n") {
				t.Errorf("%s of a %s: %v, %s, want %v", rc.assign[0], unit, err, out, lacks)
			}
		}
	}
	if left := r.loaded(t); len(left) > 0 {
		t.Errorf("units were made: %v", left)
	}
}

// private is a directory for the records of jobs.
func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// compare starts a batch by both. Where systemd-run cannot, unitward must not
// either; then the batch is halved, to find which of it can.
func (p *program) compare(t *testing.T, b batch) {
	t.Helper()
	got := p.both(t, b)
	switch {
	case got[0] == nil && got[1] == nil:
		if len(b) == 1 {
			t.Logf("neither starts one with %s", b)
		} else {
			p.compare(t, b[:len(b)/2])
			p.compare(t, b[len(b)/2:])
		}
		return
	case got[0] == nil || got[1] == nil:
		return // both has said so
	}
	p.compared += len(b)
	for i, who := range []string{"unitward", "systemd-run"} {
		for _, l := range without(got[i], p.base[i]) {
			if !has(got[1-i], l, i == 0) {
				t.Errorf("%s alone changes %s\nby %s", who, l, b)
			}
		}
	}
}

// has looks for a line of one unit in those of the other. Where a sandbox hides
// something unitward has mounts and paths of its own, beside those that were
// asked for.
func has(lines []string, line string, ours bool) bool {
	if slices.Contains(lines, line) {
		return true
	}
	name, value, _ := strings.Cut(line, "=")
	switch name {
	case "ExecStart", "ExecStartEx":
		return true
	case "RequiresMountsFor", "WantsMountsFor":
		return ours
	case "BindPaths", "BindReadOnlyPaths":
		return ours || slices.ContainsFunc(lines, func(l string) bool {
			n, v, _ := strings.Cut(l, "=")
			return n == name && strings.Contains(v, value)
		})
	}
	return false
}

// both starts one unit by each program and reads them; nil is one that did not
// start.
func (p *program) both(t *testing.T, b batch) (got [2][]string) {
	t.Helper()
	p.n++
	var said []string
	for _, rc := range b {
		for _, a := range rc.assign {
			said = append(said, "-p", a)
		}
	}
	suffix := "." + property.Service
	if p.scope {
		suffix = "." + property.Scope
	}
	var ended [2]chan error
	var messages [2]bytes.Buffer
	names := [2]string{p.name(p.n, "ours"), p.name(p.n, "theirs")}
	for i, argv := range [2][]string{
		{os.Getenv("UNITWARD_BIN"), "--state-dir", p.state, "start", p.mode, "--quiet", "--description=rig", "--output", "journal", "--unit", names[0]},
		{"systemd-run", p.mode, "--quiet", "--description=rig", "--service-type=exec", "--unit", names[1]},
	} {
		if p.scope {
			argv = [2][]string{
				{os.Getenv("UNITWARD_BIN"), "--state-dir", p.state, "run", p.mode, "--quiet", "--description=rig", "--scope", "--unit", names[0]},
				{"systemd-run", p.mode, "--quiet", "--description=rig", "--scope", "--unit", names[1]},
			}[i]
		}
		cmd := exec.Command(argv[0], slices.Concat(argv[1:], said, []string{"--", "sleep", "600"})...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &messages[i], &messages[i]
		cmd.WaitDelay = time.Second // of a start, what it started has no stream of it
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended[i] = make(chan error, 1)
		go func() { ended[i] <- cmd.Wait() }()
	}
	var started [2]bool
	for i := range 2 {
		started[i] = p.runs(t, names[i]+suffix, ended[i])
	}
	if started[0] != started[1] {
		t.Errorf("unitward started: %v, systemd-run started: %v\nby %s\n%s%s", started[0], started[1], b, &messages[0], &messages[1])
	}
	for i := range 2 {
		if !started[i] && i == 0 && len(b) <= 1 && !strings.Contains(messages[i].String(), "unitward: cannot ") {
			t.Errorf("it was not said why nothing was started by %s: %s", b, &messages[i])
		}
	}
	if started[0] && started[1] {
		var errs [2]error
		for i := range 2 {
			var out []byte
			out, errs[i] = exec.Command("systemctl", p.mode, "show", "--all", "--", names[i]+suffix).Output()
			got[i] = steady(strings.Split(strings.ReplaceAll(string(out), names[i], "UNIT"), "\n"))
		}
		if errs[0] != nil && errs[1] == nil {
			t.Errorf("cannot show what unitward started with %s: %v", b, errs[0])
		}
		if errs[0] != nil || errs[1] != nil {
			t.Logf("systemctl cannot show one with %s: %v", b, errs[1]) // halved, as what does not start
			got = [2][]string{}
		}
	}
	for i := range 2 {
		// The first process of a PID namespace heeds no SIGTERM.
		p.call("KillUnit", names[i]+suffix, "all", int32(syscall.SIGKILL))
		p.call("StopUnit", names[i]+suffix, "replace")
		p.call("ResetFailedUnit", names[i]+suffix)
		if p.scope || !started[i] {
			select {
			case <-ended[i]:
			case <-time.After(time.Minute):
				t.Fatalf("%s does not end", names[i])
			}
		}
	}
	// With a service goes its RuntimeDirectory=, which the next one can have too.
	p.settle(t)
	return got
}

// runs waits until the unit of a program is active, and says whether it is: a
// program that starts a service is done then, one that runs a scope is done when
// there is none.
func (p *program) runs(t *testing.T, unit string, ended chan error) bool {
	t.Helper()
	if !p.scope {
		err := <-ended
		ended <- err
		return err == nil
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			return false
		default:
		}
		out, err := exec.Command("systemctl", p.mode, "is-active", "--", unit).Output()
		if err == nil && strings.TrimSpace(string(out)) == "active" {
			return true
		}
	}
	t.Fatalf("%s does not run", unit)
	return false
}
