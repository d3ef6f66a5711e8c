package property

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

// Each type of unit has each name once, with a whole syntax.
func TestTables(t *testing.T) {
	all := tables()
	for _, unit := range []Trigger{Timer, Path, Socket} {
		all = append(all, unit.tables()...)
	}
	for _, table := range all {
		sorted := slices.IsSortedFunc(table, func(a, b entry) int { return strings.Compare(a.name, b.name) })
		if !sorted {
			t.Errorf("the table that begins with %s is not sorted", table[0].name)
		}
	}
	for _, unit := range Types {
		seen := map[string]bool{}
		for _, name := range Names(unit) {
			if seen[name] {
				t.Errorf("%s is twice in the tables of a %s", name, unit)
			}
			seen[name] = true
			s, since := lookupIn(unit)(name)
			if s == nil || s.parse == nil || s.sig == "" || s.expectation() == "" {
				t.Fatalf("%s of a %s has no whole syntax: %+v", name, unit, s)
			}
			isVersion(t, name, since)
			for word, since := range s.choices {
				isVersion(t, name+"="+word, since)
			}
			for sig := range strings.SplitSeq(s.sig, "|") {
				if _, err := dbus.ParseSignature(sig); err != nil {
					t.Errorf("%s has the signature %q: %v", name, sig, err)
				}
			}
		}
		if len(seen) < 120 {
			t.Errorf("only %d names of a %s are known", len(seen), unit)
		}
	}
}

func isVersion(t *testing.T, what string, since int) {
	t.Helper()
	if since != 0 && (since < 248 || since > 262) {
		t.Errorf("%s is said to be there since %d", what, since)
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
	if refused != 88 {
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
	for assignment, want := range map[string]int{
		"MemoryMax": 0, "MemoryMax=50%": 0, "Nonsense=1": 0, "ExitType": 250, "OpenFile": 253, "MemoryZSwapMax": 253,
		"RestartMaxDelaySec": 254, "ConditionVersion": 258, "AssertCredential": 252, "ManagedOOMMemoryPressureLimit": 248,
		"PrivateTmp=yes": 0, "PrivateTmp=disconnected": 257, "PrivateTmpEx=yes": 0, "PrivateTmpEx=disconnected": 257, "PrivateUsers=self": 257, "PrivateUsers=full": 258, "PrivateUsers=managed": 260,
		"ProtectHostname=no": 0, "ProtectHostname=private": 258, "ProtectHostname=yes:a": 258, "ProtectControlGroups=strict": 257,
		"StateDirectory=a b": 0, "StateDirectory=a b:c": 250, "StateDirectory=a:b c::ro": 257, "CPUWeight=idle": 252, "CPUWeight=5": 0,
		"ExecStartPre=-/a |b": 0, "ExecStartPre=-|a": 258, "ExecReloadPost=|a": 259, "ImportCredential=a": 254, "ImportCredential=a:b": 257,
		"StandardOutput=truncate:/a": 248, "StandardOutput=file:/a": 0, "CPUSchedulingPolicy=ext": 258, "CPUSchedulingPolicy=rr": 0, "NUMAPolicy=preferred-many": 262,
		"StartupMemoryMax=1G": 254,
		"RestartMode=direct":  254, "RestartMode=debug": 257, "OnFailureJobMode=lenient": 258, "FailureAction=soft-reboot": 254, "OOMPolicy=kill": 0,
	} {
		if got := Since(Service, assignment); got != want {
			t.Errorf("Since(%s) = %d, want %d", assignment, got, want)
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
