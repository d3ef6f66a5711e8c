package dbusclient

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit"
)

func TestParseBusAddress(t *testing.T) {
	for in, want := range map[string]string{
		"unix:path=/run/user/1000/bus":             "/run/user/1000/bus",
		"unix:path=/run/user/1000/bus,guid=abcdef": "/run/user/1000/bus",
		"unix:guid=abcdef,path=/b":                 "/b",
		"unix:path=/a%20b":                         "/a b",
		"unix:path=/a%2Cb%3b":                      "/a,b;",
		"unix:path=/ä":                             "/ä",

		"":                                "",
		"unix:":                           "",
		"unix":                            "",
		"path=/b":                         "",
		"unix:abstract=/tmp/x":            "",
		"unix:path=":                      "",
		"unix:path=b":                     "",
		"unix:path=%2":                    "",
		"unix:path=/b%":                   "",
		"unix:path=/b%2":                  "",
		"unix:path=/b%zz":                 "",
		"unix:path=/b%+1":                 "",
		"unix:runtime=yes":                "",
		"unix:tmpdir=/tmp":                "",
		"tcp:host=localhost,port=1":       "",
		"unixexec:path=/bin/sh":           "",
		"autolaunch:":                     "",
		"systemd:":                        "",
		"UNIX:path=/b":                    "",
		" unix:path=/b":                   "",
		"launchd:env=X,unix:path=/b":      "",
		"unix:xpath=/b":                   "",
		"unix:path=relative,path=/second": "",
	} {
		a, ok := parseBusAddress(in)
		if ok != (want != "") || a.path != want || ok && !a.bus {
			t.Errorf("parseBusAddress(%q) = %+v, %v; want %q", in, a, ok, want)
		}
	}
}

func FuzzBusAddress(f *testing.F) {
	for _, s := range []string{"unix:path=/b", "unix:path=/a%20b,guid=1", "unix:path=%", "unix:path=/\x00", "unix:path=/a%2", "tcp:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if back, ok := unescapeAddress(escapeAddress(s)); !ok || back != s {
			t.Fatalf("%q is escaped as %q, which is %q, %v", s, escapeAddress(s), back, ok)
		}
		if e := escapeAddress(s); strings.ContainsAny(e, ",;=: \x00\n") {
			t.Fatalf("%q is escaped as %q", s, e)
		}
		a, ok := parseBusAddress(s)
		if !ok {
			return
		}
		if !filepath.IsAbs(a.path) || !a.bus {
			t.Fatalf("parseBusAddress(%q) = %+v", s, a)
		}
		if again, ok := parseBusAddress(a.dial); !ok || again != a {
			t.Fatalf("parseBusAddress(%q) = %+v, which is written %q and read as %+v", s, a, a.dial, again)
		}
	})
}

func environment(uid int, kv ...string) Environment {
	return Environment{UID: uid, Getenv: func(name string) string {
		for _, e := range kv {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}}
}

func TestAddresses(t *testing.T) {
	const std, stdPrivate = "own bus /run/user/1000/bus", "private /run/user/1000/systemd/private"
	for _, c := range []struct {
		name string
		m    unit.Manager
		env  Environment
		want []string
	}{
		{"system", unit.ManagerSystem, environment(1000, "DBUS_SESSION_BUS_ADDRESS=unix:path=/s"), []string{"own bus /run/dbus/system_bus_socket"}},
		{"system, root", unit.ManagerSystem, environment(0), []string{"own bus /run/dbus/system_bus_socket", "private /run/systemd/private"}},
		{"system takes no hint from the environment", unit.ManagerSystem, environment(1000, "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/evil"),
			[]string{"own bus /run/dbus/system_bus_socket"}},
		{"bare", unit.ManagerUser, environment(1000), []string{std, stdPrivate}},
		{"root's own", unit.ManagerUser, environment(0), []string{"own bus /run/user/0/bus", "private /run/user/0/systemd/private"}},
		{"runtime dir", unit.ManagerUser, environment(1000, "XDG_RUNTIME_DIR=/run/user/1000"), []string{std, stdPrivate}},
		{"unclean runtime dir", unit.ManagerUser, environment(1000, "XDG_RUNTIME_DIR=/run//user/1000/"), []string{std, stdPrivate}},
		{"another runtime dir", unit.ManagerUser, environment(1000, "XDG_RUNTIME_DIR=/x"),
			[]string{"own bus /x/bus", std, "private /x/systemd/private", stdPrivate}},
		{"relative runtime dir", unit.ManagerUser, environment(1000, "XDG_RUNTIME_DIR=x"), []string{std, stdPrivate}},
		{"session bus first", unit.ManagerUser, environment(1000, "DBUS_SESSION_BUS_ADDRESS=unix:path=/s,guid=1"), []string{"bus /s", std, stdPrivate}},
		{"the usual session bus once", unit.ManagerUser,
			environment(1000, "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus", "XDG_RUNTIME_DIR=/run/user/1000"), []string{std, stdPrivate}},
		{"several, and what is of no use", unit.ManagerUser,
			environment(1000, "DBUS_SESSION_BUS_ADDRESS=tcp:host=x;unix:path=/a;unix:abstract=/y;unix:path=/b;autolaunch:"),
			[]string{"bus /a", "bus /b", std, stdPrivate}},
		{"a semicolon in a path", unit.ManagerUser, environment(1000, "DBUS_SESSION_BUS_ADDRESS=unix:path=/a%3bb"), []string{"bus /a;b", std, stdPrivate}},
	} {
		var got []string
		for _, a := range addresses(c.m, c.env) {
			kind := "private "
			if a.bus {
				kind = "bus "
			}
			if a.beside != "" {
				kind = "own " + kind
			}
			got = append(got, kind+a.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSocketMustBeOwned(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", dir+"/bus")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	us := os.Geteuid()
	for _, c := range []struct {
		path string
		m    unit.Manager
		uid  int
		says string
	}{
		{dir + "/bus", unit.ManagerUser, us, ""},
		{dir + "/bus", unit.ManagerUser, us + 1, "belongs to uid"},
		{dir + "/file", unit.ManagerUser, us, "not a socket"},
		{dir + "/gone", unit.ManagerUser, us, "no such file"},
		{dir + "/\x00", unit.ManagerUser, us, "invalid argument"},
	} {
		err := busAt(c.path).owned(c.m, c.uid)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q for uid %d: %v, want %q", c.path, c.uid, err, c.says)
		}
	}
	if err := busAt(dir+"/bus").owned(unit.ManagerSystem, us); (err == nil) != (us == 0) {
		t.Errorf("as the system manager's, to uid %d: %v", us, err)
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]int{
		"257": 257, "252.39-1~deb12u1": 252, "v257": 257, "262~rc1": 262, "v262-rc1": 262, "247 (247.3-7+deb11u4)": 247,
		" 255": 255, "255-": 255, "": 0, "v": 0, "systemd 257": 0, "-1": 0, ".5": 0, "rc1": 0, "0": 0, "007": 7,
		"99999999999999999999": 999999,
	} {
		if got := parseVersion(in); got != want {
			t.Errorf("parseVersion(%q) = %d, want %d", in, got, want)
		}
	}
}
