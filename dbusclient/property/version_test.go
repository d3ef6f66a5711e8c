package property_test

import (
	"errors"
	"testing"

	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
)

func TestSupported(t *testing.T) {
	for _, c := range []struct {
		assignments []string
		version     int
		want        string
	}{
		{[]string{"MemoryMax=1G", "Nice=5"}, 247, ""},
		{[]string{"MemoryMax=1G", "OpenFile=/etc/hostname"}, 252, "cannot set property OpenFile: systemd 253 has it, and 252 runs here"},
		{[]string{"OpenFile=/etc/hostname"}, 253, ""},
		{[]string{"PrivateTmp=yes"}, 247, ""},
		{[]string{"PrivateTmp=disconnected"}, 252, "cannot set property PrivateTmp=disconnected: systemd 257 has it, and 252 runs here"},
		{[]string{"ExecStartPre=|true"}, 257, "cannot set property ExecStartPre=|true: systemd 258 has it, and 257 runs here"},
		{[]string{"CPUWeight=idle"}, 247, "cannot set property CPUWeight=idle: systemd 252 has it, and 247 runs here"},
		{[]string{"PrivateUsers=managed"}, 259, "cannot set property PrivateUsers=managed: systemd 260 has it, and 259 runs here"},
		{[]string{"RuntimeDirectory=a:l:ro"}, 252, "cannot set property RuntimeDirectory=a:l:ro: systemd 257 has it, and 252 runs here"},
		{[]string{"StateDirectory=a:b"}, 247, "cannot set property StateDirectory=a:b: systemd 250 has it, and 247 runs here"},
		{[]string{"AssertVersion=>1"}, 257, "cannot set property AssertVersion: systemd 258 has it, and 257 runs here"},
		{[]string{"OpenFile=/etc/hostname"}, 0, ""},
		{nil, 247, ""},
	} {
		err := property.Supported(c.assignments, c.version)
		var lacks *property.VersionError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v with %d: %v", c.assignments, c.version, err)
		case c.want != "" && (!errors.As(err, &lacks) || err.Error() != c.want || len(lacks.Hint()) != 1 || !errors.Is(err, unit.ErrUsage)):
			t.Errorf("%v with %d: %v, want %s", c.assignments, c.version, err, c.want)
		}
	}
}

func TestSupportedIn(t *testing.T) {
	for _, c := range []struct {
		unit, assignment string
		version          int
		want             string
	}{
		{property.Scope, "MemoryMax=1G", 247, ""},
		{property.Scope, "OOMPolicy=kill", 247, "cannot set property OOMPolicy: systemd 252 has it, and 247 runs here"},
		{property.Scope, "OOMPolicy=kill", 252, ""},
		{"socket", "SocketProtocol=mptcp", 252, "cannot set property SocketProtocol=mptcp: systemd 257 has it, and 252 runs here"},
		{property.Service, "OOMPolicy=kill", 247, ""},
		{"timer", "OnCalendar=daily", 247, ""},
		{"timer", "RandomizedOffsetSec=5", 257, "cannot set property RandomizedOffsetSec: systemd 258 has it, and 257 runs here"},
		{"timer", "RandomizedOffsetSec=5", 258, ""},
		{"timer", "ConditionVersion=>1", 257, "cannot set property ConditionVersion: systemd 258 has it, and 257 runs here"},
		{"path", "TriggerLimitBurst=5", 247, "cannot set property TriggerLimitBurst: systemd 250 has it, and 247 runs here"},
		{"socket", "TriggerLimitBurst=5", 247, ""},
		{"socket", "PassFileDescriptorsToExec=yes", 255, "cannot set property PassFileDescriptorsToExec: systemd 256 has it, and 255 runs here"},
		{"socket", "PrivateUsers=full", 257, "cannot set property PrivateUsers=full: systemd 258 has it, and 257 runs here"},
		{"socket", "PrivateUsers=full", 0, ""},
		{"socket", "ListenFIFO=/a", 247, "cannot set property ListenFIFO: systemd 248 has it, and 247 runs here"},
	} {
		err := property.SupportedIn(c.unit, []string{"Description=x", c.assignment}, c.version)
		var lacks *property.VersionError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &lacks) || err.Error() != c.want) {
			t.Errorf("%s of a %s with %d: %v, want %s", c.assignment, c.unit, c.version, err, c.want)
		}
	}
}

func TestOfScope(t *testing.T) {
	for assignment, ok := range map[string]bool{
		"MemoryMax=1G": true, "After=x.service": true, "KillSignal=INT": true, "SendSIGHUP=yes": true, "RuntimeMaxSec=5": true,
		"AssertPathExists=/": true, "OOMPolicy=kill": true, "Slice=a.slice": true, "TasksMax=5": true,
		"Nice=5": false, "User=root": false, "ProtectSystem=strict": false, "ExecStartPre=/bin/true": false, "LimitNOFILE=5": false,
		"TimeoutStartSec=5": false, "Nonsense=1": true, // which Parse refuses
	} {
		err := property.OfScope([]string{"CPUWeight=5", assignment})
		var of *property.ScopeError
		if ok != (err == nil) || !ok && (!errors.As(err, &of) || !errors.Is(err, unit.ErrUsage) || len(of.Hint()) != 1) {
			t.Errorf("%s: %v", assignment, err)
		}
	}
}
