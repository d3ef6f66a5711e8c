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
