package property

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestTables(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range tables() {
		sorted := slices.IsSortedFunc(table, func(a, b entry) int { return strings.Compare(a.name, b.name) })
		if !sorted {
			t.Errorf("the table that begins with %s is not sorted", table[0].name)
		}
	}
	for name := range names {
		if seen[name] {
			t.Errorf("%s is twice in the tables", name)
		}
		seen[name] = true
		s, since := lookup(name)
		if s == nil || s.parse == nil || s.sig == "" || s.expectation() == "" {
			t.Fatalf("%s has no whole syntax: %+v", name, s)
		}
		if since != 0 && (since < 248 || since > 262) {
			t.Errorf("%s is said to be there since %d", name, since)
		}
		for sig := range strings.SplitSeq(s.sig, "|") {
			if _, err := dbus.ParseSignature(sig); err != nil {
				t.Errorf("%s has the signature %q: %v", name, sig, err)
			}
		}
	}
	if len(seen) < 150 {
		t.Errorf("only %d names are known", len(seen))
	}
}

// Every name that is refused exists, and says what to do.
func TestReserved(t *testing.T) {
	refused := 0
	for name := range names {
		e := Reserved(name)
		if e == nil {
			continue
		}
		refused++
		if e.Reason == "" || len(e.Hint()) != 1 {
			t.Errorf("%s is refused without a reason or a way out: %+v", name, e)
		}
		if _, err := Parse(name + "=x"); err == nil || err.Error() != e.Error() {
			t.Errorf("Parse(%s=x) = %v, want %v", name, err, e)
		}
	}
	if refused != 87 {
		t.Errorf("%d properties are refused", refused)
	}
	for _, name := range []string{"ConditionPathExists", "ConditionVersion", "StopWhenUnneeded", "ExecCondition", "UnsetEnvironment", "StandardInputFileDescriptor", "StandardOutputFileToAppend", "StandardErrorFile"} {
		if Reserved(name) == nil {
			t.Errorf("%s is allowed", name)
		}
	}
	for _, name := range []string{"MemoryMax", "Slice", "User", "WorkingDirectory", "UMask", "LimitNOFILE", "IgnoreSIGPIPE", "BindsTo", "PartOf", "Conflicts", "AssertPathExists"} {
		if e := Reserved(name); e != nil {
			t.Errorf("%s is refused: %v", name, e)
		}
	}
}

// What has the value anyway may be said, in every spelling.
func TestFixedValues(t *testing.T) {
	for _, a := range []string{
		"Type=exec", "KillMode=control-group", "RemainAfterExit=no", "RemainAfterExit=0", "SendSIGKILL=yes", "SendSIGKILL=true", "Restart=no",
		"CollectMode=inactive-or-failed", "FinalKillSignal=KILL", "FinalKillSignal=9", "NotifyAccess=none", "StopWhenUnneeded=off", "WatchdogSec=0",
	} {
		if ps, err := Parse(a); err != nil || len(ps) != 0 {
			t.Errorf("Parse(%s) = %v, %v", a, ps, err)
		}
	}
	for _, a := range []string{
		"Type=simple", "Type=", "KillMode=mixed", "KillMode=none", "KillMode=", "RemainAfterExit=yes", "SendSIGKILL=no", "Restart=always",
		"CollectMode=inactive", "FinalKillSignal=TERM", "StopWhenUnneeded=yes", "ExitType=main", "KillSignal=TERM", "WatchdogSec=1",
	} {
		var refused *NotAllowedError
		if ps, err := Parse(a); !errors.As(err, &refused) {
			t.Errorf("Parse(%s) = %v, %v", a, ps, err)
		}
	}
}

func TestSince(t *testing.T) {
	for name, want := range map[string]int{
		"MemoryMax": 0, "MemoryMaxScale": 0, "CPUQuotaPerSecUSec": 0, "TimeoutStopUSec": 0, "Conditions": 0, "Nonsense": 0,
		"ExitType": 250, "OpenFile": 253, "MemoryZSwapMax": 253, "MemoryZSwapMaxScale": 253, "PrivateTmp": 0,
		"PrivateTmpEx": 257, "ProtectHostnameEx": 258, "RestartMaxDelaySec": 254, "RestartMaxDelayUSec": 254,
		"StateDirectory": 0, "StateDirectorySymlink": 250, "ConditionVersion": 258, "AssertCredential": 252,
		"ExecReloadPostEx": 259, "ManagedOOMMemoryPressureLimit": 248, "StandardOutputFileToTruncate": 248,
	} {
		if got := Since(name); got != want {
			t.Errorf("Since(%s) = %d, want %d", name, got, want)
		}
	}
}

func TestSimilar(t *testing.T) {
	for name, want := range map[string]string{
		"memorymax": "MemoryMax", "MemoryMaxx": "MemoryMax", "MemroyMax": "MemoryMax", "CPUQouta": "CPUQuota",
		"RuntimeMaxUSec": "RuntimeMaxSec", "MemoryLimit": "MemoryMax", "CPUShares": "CPUWeight", "ProtectHomes": "ProtectHome",
		"ConditionPathExist": "ConditionPathExists", "LimitNOFILES": "LimitNOFILE", "EnvironmentFiles": "EnvironmentFile",
		"Zebra": "", "": "", strings.Repeat("x", 10000): "", "CPUQuotaPerSecUSec": "CPUQuota",
	} {
		if got := similar(name); got != want {
			t.Errorf("similar(%.30q) = %q, want %q", name, got, want)
		}
	}
}

// The kernel's and systemd's numbers that are counted out of a list of names.
func TestNumbered(t *testing.T) {
	for name, want := range map[string]int32{"EPERM": 1, "ENOSYS": 38, "ENODATA": 61, "ENOTSOCK": 88, "EHWPOISON": 133} {
		ps, ok := parseErrno(nil, "x", name)
		if got, _ := ps[0].Value.Value().(int32); !ok || got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int32{"cap_chown": 0, "cap_sys_admin": 21, "cap_checkpoint_restore": 40, "41": 41} {
		if got, ok := capability(name); !ok || got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int32{"HUP": 1, "SIGKILL": 9, "TERM": 15, "CHLD": 17, "SYS": 31, "RTMIN": 34, "RTMAX": 64} {
		if got, ok := signal(name); !ok || got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int32{"NOTRUNNING": 7, "CONFIG": 78, "STDERR": 222, "RUNTIME_DIRECTORY": 233, "MEMORY_THP": 246, "EXCEPTION": 255} {
		if got, ok := exitCode(name); !ok || got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}
