package unit

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	for s, want := range map[string]HostAddress{
		"far":                        {Login: "far"},
		"alice@far":                  {Login: "alice@far"},
		"far.example:2222":           {Login: "far.example", Port: "2222"},
		"far/box":                    {Login: "far", Container: "box"},
		"alice@far:22/box":           {Login: "alice@far", Port: "22", Container: "box"},
		"far:box":                    {Login: "far", Container: "box"},
		"[2001:db8::1]":              {Login: "2001:db8::1"},
		"alice@[2001:db8::1]:22/box": {Login: "alice@2001:db8::1", Port: "22", Container: "box"},
	} {
		if got, err := ParseHost(s); err != nil || got != want {
			t.Errorf("ParseHost(%q) = %+v, %v, want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "@far", "alice@", "-oProxyCommand=x", "alice@-x", "-a@far", "a b", "a\nb", "far/", "far:", "far:1x/box", "far/..", "far//b",
		"[2001:db8::1", "[::1]x", "a@b@c", "far;true", "$(true)", "far/box/box", strings.Repeat("h", maxRemote+1),
	} {
		_, err := ParseHost(s)
		var wrong *RemoteError
		if !errors.As(err, &wrong) || !errors.Is(err, ErrUsage) {
			t.Errorf("ParseHost(%q) = %v", s, err)
		}
	}
}

func TestParseMachine(t *testing.T) {
	for s, want := range map[string][3]string{
		"box": {"", "box", ""}, ".host": {"", ".host", ""}, "@": {"", ".host", "@"}, "alice@": {"alice", ".host", "@"},
		"alice@box": {"alice", "box", "@"}, "1000@.host": {"1000", ".host", "@"},
	} {
		user, name, at, err := ParseMachine(s)
		if err != nil || user != want[0] || name != want[1] || at != (want[2] != "") {
			t.Errorf("ParseMachine(%q) = %q, %q, %v, %v, want %q", s, user, name, at, err, want)
		}
	}
	for _, s := range []string{"", "a/b", "-b", ".hidden", "-x@box", "a b@box", "a@b@box", "a@..", strings.Repeat("m", 65)} {
		_, _, _, err := ParseMachine(s)
		var wrong *RemoteError
		if !errors.As(err, &wrong) {
			t.Errorf("ParseMachine(%q) = %v", s, err)
		}
	}
}

func TestBridge(t *testing.T) {
	for _, c := range []struct {
		r    Remote
		m    Manager
		want string
	}{
		{Remote{Host: "alice@far"}, ManagerSystem, "ssh -xT -- alice@far systemd-stdio-bridge"},
		{Remote{Host: "far:22/box"}, ManagerSystem, "ssh -xT -p 22 -- far systemd-stdio-bridge --machine=box"},
		{Remote{Machine: "box"}, ManagerSystem, "systemd-stdio-bridge --machine=box"},
		{Remote{Machine: "box"}, ManagerUser, "systemd-run --machine=box --pipe --collect --quiet --wait --property=User=root --property=PAMName=login systemd-stdio-bridge --bus-path=unix:path=${XDG_RUNTIME_DIR}/bus"},
		{Remote{Machine: "alice@.host"}, ManagerUser, "systemd-run --pipe --collect --quiet --wait --property=User=alice --property=PAMName=login systemd-stdio-bridge --bus-path=unix:path=${XDG_RUNTIME_DIR}/bus"},
		{Remote{Machine: "@box"}, ManagerSystem, "systemd-run --machine=box --pipe --collect --quiet --wait --property=User=1000 --property=PAMName=login systemd-stdio-bridge"},
	} {
		got, err := c.r.Bridge(c.m, "ssh", "1000")
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%v, %s: %q, %v, want %q", c.r, c.m, got, err, c.want)
		}
	}
}

// Whatever is given as a host or machine is one argument, and never an option.
func FuzzRemote(f *testing.F) {
	for _, s := range []string{"alice@far:22/box", "[::1]", "-x", "a@-b", "@", "x@.host", "far:box"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range []Remote{{Host: s}, {Machine: s}} {
			argv, err := r.Bridge(ManagerUser, "ssh", "1000")
			if err != nil {
				continue
			}
			if strings.ContainsAny(strings.Join(argv, "\x01"), " \n\t\x00'\"`;&|<>\\") {
				t.Errorf("%q leads to %q", s, argv)
			}
			if i := slices.Index(argv, "--"); r.Host != "" && (i < 0 || len(argv) < i+3 || strings.HasPrefix(argv[i+1], "-") || argv[i+2] != "systemd-stdio-bridge") {
				t.Errorf("%q leads to %q", s, argv)
			}
		}
	})
}
