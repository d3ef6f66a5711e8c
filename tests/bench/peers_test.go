package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBundle(t *testing.T) {
	for _, c := range []struct {
		uid        int
		namespaces string
	}{
		{0, "pid mount ipc uts"},
		{1000, "pid mount ipc uts user"},
	} {
		b := newBundle([]string{"true"}, c.uid, c.uid+1, []string{"/usr"})
		var names []string
		for _, n := range b.Linux.Namespaces {
			names = append(names, n.Type)
		}
		if got := strings.Join(names, " "); got != c.namespaces {
			t.Errorf("namespaces of %d: %s, want %s", c.uid, got, c.namespaces)
		}
		if mapped := len(b.Linux.UIDMappings) == 1 && b.Linux.UIDMappings[0].Host == c.uid && b.Linux.GIDMappings[0].Host == c.uid+1; mapped != (c.uid != 0) {
			t.Errorf("mappings of %d: %+v, %+v", c.uid, b.Linux.UIDMappings, b.Linux.GIDMappings)
		}
		if last := b.Mounts[len(b.Mounts)-1]; last.Destination != "/usr" || !slices.Contains(last.Options, "ro") {
			t.Errorf("the programs are mounted as %+v", last)
		}
	}
}

func TestWriteBundle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := writeBundle(dir, "true"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bundle
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Process.Args, []string{"true"}) || b.Version == "" {
		t.Errorf("the bundle: %s", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "rootfs/usr")); err != nil {
		t.Error(err)
	}
}

func TestSayPID(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, "echo $$; exec sleep "},
		{[]string{"unitward", "run", "--"}, "echo $$; exec sleep "},
		{[]string{"systemd-run", "--user"}, "echo $$$$; exec sleep "},
	} {
		got := sayPID(c.argv...)
		if n := len(got); !slices.Equal(got[:n-1], append(slices.Clone(c.argv), "sh", "-c")) || !strings.HasPrefix(got[n-1], c.want) {
			t.Errorf("%q: %q", c.argv, got)
		}
	}
}

func TestContainersHaveNamesOfTheirOwn(t *testing.T) {
	r, err := newRuntimes(t.TempDir(), "true")
	if err != nil {
		t.Fatal(err)
	}
	first, second := r.crun(), r.crun()
	n := len(first) - 1
	if first[n] == second[n] || !slices.Equal(first[:n], second[:n]) {
		t.Errorf("two containers: %q, %q", first, second)
	}
}
