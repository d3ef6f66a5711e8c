package cgroup

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMount(t *testing.T) {
	for _, c := range []struct{ line, root, mount string }{
		{"24 18 0:22 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate", "/", "/sys/fs/cgroup"},
		{"24 18 0:22 / /sys/fs/cgroup rw - cgroup2 none rw", "/", "/sys/fs/cgroup"},
		{"24 18 0:22 / /sys/fs/cgroup/unified rw shared:9 master:1 propagate_from:2 unbindable - cgroup2 cgroup rw", "/", "/sys/fs/cgroup/unified"},
		{`24 18 0:22 /a\040b /m\011n\134\012 rw - cgroup2 cgroup rw`, "/a b", "/m\tn\\\n"},
		{"24 18 0:22 /../.. /mnt rw - cgroup2 cgroup rw", "/../..", "/mnt"},

		{"", "", ""},
		{"24 18 0:22 / /sys/fs/cgroup rw shared:9", "", ""},
		{"24 18 0:22 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids", "", ""},
		{"24 18 0:22 / /tmp rw - tmpfs cgroup2 rw", "", ""},
		{"24 18 0:22 / /tmp rw - cgroup20 x rw", "", ""},
		{"24 18 0:22 / - cgroup2 cgroup rw", "", ""},
		{"- cgroup2 cgroup rw", "", ""},
		{`24 18 0:22 / /m\04 rw - cgroup2 cgroup rw`, "", ""},
		{`24 18 0:22 /\9 /m rw - cgroup2 cgroup rw`, "", ""},
		{"24 18 0:22 / relative rw - cgroup2 cgroup rw", "", ""},
		{"24 18 0:22 relative /m rw - cgroup2 cgroup rw", "", ""},
	} {
		h, ok := parseMount(c.line)
		if ok != (c.mount != "") || ok && (h.root != c.root || h.mount != c.mount) {
			t.Errorf("parseMount(%q) = %+v, %v; want %q, %q", c.line, h, ok, c.root, c.mount)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{"": "", "/a": "/a", `\040`: " ", `a\134b`: `a\b`, `\377`: "\xff", `\000`: "\x00", `\0400`: " 0"} {
		if got, ok := unescape(in); !ok || got != want {
			t.Errorf("unescape(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
	for _, in := range []string{`\`, `\0`, `\04`, `\400`, `\999`, `\x20`, `\+12`, `a\ 12`} {
		if got, ok := unescape(in); ok {
			t.Errorf("unescape(%q) = %q", in, got)
		}
	}
}

func FuzzMount(f *testing.F) {
	f.Add("24 18 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
	f.Add(`24 18 0:22 /\040 /\ rw - cgroup2 cgroup2 rw`)
	f.Fuzz(func(t *testing.T, s string) {
		if h, ok := parseMount(s); ok && (!filepath.IsAbs(h.mount) || !filepath.IsAbs(h.root)) {
			t.Fatalf("parseMount(%q) = %+v", s, h)
		}
		// As the kernel does it (fs/seq_file.c, mangle_path).
		escaped := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(s)
		if got, ok := unescape(escaped); !ok || got != s {
			t.Fatalf("%q is escaped as %q, which is read as %q, %v", s, escaped, got, ok)
		}
	})
}

func TestParsePopulated(t *testing.T) {
	for in, want := range map[string]bool{
		"populated 0\nfrozen 0\n": false, "populated 1\nfrozen 0\n": true, "frozen 1\npopulated 1\n": true,
		"novel 1\nfrozen 1\npopulated 0": false, "populated 1": true,
	} {
		if got, err := parsePopulated(in); err != nil || got != want {
			t.Errorf("parsePopulated(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	// What cannot be read is an error and never "empty".
	for _, in := range []string{"", "\n", "populated", "populated \n", "populated 2\n", "populated 01\n", "populated  0\n", " populated 0\n", "populated 0 \n", "unpopulated 0\n", "frozen 0\n", "populated 0\r\n"} {
		if got, err := parsePopulated(in); err == nil {
			t.Errorf("parsePopulated(%q) = %v", in, got)
		}
	}
}

func FuzzPopulated(f *testing.F) {
	f.Add("populated 1\nfrozen 0\n")
	f.Add("populated 0")
	f.Fuzz(func(t *testing.T, s string) {
		populated, err := parsePopulated(s)
		lines := strings.Split(s, "\n")
		said := false
		for _, l := range lines {
			said = said || l == "populated 0" && !populated || l == "populated 1" && populated
		}
		if err == nil && !said {
			t.Fatalf("parsePopulated(%q) = %v, and no line says so", s, populated)
		}
	})
}

// event is one of inotify(7).
func event(mask uint32, name string) []byte {
	b := make([]byte, unix.SizeofInotifyEvent, unix.SizeofInotifyEvent+len(name))
	binary.LittleEndian.PutUint32(b[4:], mask)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(name)))
	return append(b, name...)
}

func TestIgnored(t *testing.T) {
	join := func(events ...[]byte) (all []byte) {
		for _, e := range events {
			all = append(all, e...)
		}
		return all
	}
	modify, gone := event(unix.IN_MODIFY, ""), event(unix.IN_IGNORED, "")
	for _, c := range []struct {
		name   string
		events []byte
		want   bool
	}{
		{"nothing", nil, false},
		{"modified", modify, false},
		{"gone", gone, true},
		{"the last of many", join(modify, modify, event(unix.IN_DELETE_SELF, ""), gone), true},
		{"after a name", join(event(unix.IN_MODIFY, "cgroup.events\x00\x00\x00"), gone), true},
		{"with other bits", event(unix.IN_IGNORED|unix.IN_ISDIR, ""), true},
		{"cut", gone[:15], false},
		{"a name that looks like it", event(unix.IN_MODIFY, string(gone)), false},
		{"a name that is cut", event(unix.IN_MODIFY, "abcd")[:18], false},
	} {
		if got := ignored(c.events); got != c.want {
			t.Errorf("%s: ignored = %v, want %v", c.name, got, c.want)
		}
	}
}

func FuzzIgnored(f *testing.F) {
	f.Add(event(unix.IN_IGNORED, ""))
	f.Add(event(unix.IN_MODIFY, "name"))
	f.Add([]byte("0000000000000000\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// It must end, and what comes after the end of the watch changes nothing.
		if ignored(b) && !ignored(append(b, event(unix.IN_MODIFY, "")...)) {
			t.Fatalf("ignored(%q) is undone by a later event", b)
		}
	})
}

func TestPath(t *testing.T) {
	for _, c := range []struct{ mount, root, cgroup, want string }{
		{"/sys/fs/cgroup", "/", "/", "/sys/fs/cgroup"},
		{"/sys/fs/cgroup", "/", "/user.slice/a.service", "/sys/fs/cgroup/user.slice/a.service"},
		{"/sys/fs/cgroup", "/", `/a\x2db`, `/sys/fs/cgroup/a\x2db`},
		{"/sys/fs/cgroup", "/", "/..a/.b", "/sys/fs/cgroup/..a/.b"},
		{"/mnt", "/sub", "/sub", "/mnt"},
		{"/mnt", "/sub", "/sub/a", "/mnt/a"},

		{"/mnt", "/sub", "/", ""},
		{"/mnt", "/sub", "/subway", ""},
		{"/mnt", "/sub", "/other/sub", ""},
		{"/mnt", "/", "", ""},
		{"/mnt", "/", "a", ""},
		{"/mnt", "/", "./a", ""},
		{"/mnt", "/", "/a/", ""},
		{"/mnt", "/", "//a", ""},
		{"/mnt", "/", "/a/./b", ""},
		{"/mnt", "/", "/a/../b", ""},
		{"/mnt", "/", "/..", ""},
		{"/mnt", "/", "/../etc", ""},
		{"/mnt", "/sub", "/sub/../etc", ""},
	} {
		h := &Hierarchy{mount: c.mount, root: c.root}
		got, err := h.path(c.cgroup)
		if (err == nil) != (c.want != "") || got != c.want {
			t.Errorf("%+v: path(%q) = %q, %v; want %q", h, c.cgroup, got, err, c.want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a", "/../a", "/a/..", "/sub/a", "//"} {
		f.Add(s, "/")
		f.Add(s, "/sub")
	}
	f.Fuzz(func(t *testing.T, cgroup, root string) {
		h := &Hierarchy{mount: "/sys/fs/cgroup", root: root}
		if got, err := h.path(cgroup); err == nil && got != h.mount && !strings.HasPrefix(got, h.mount+"/") {
			t.Fatalf("path(%q) below %q is %q", cgroup, root, got)
		}
	})
}
