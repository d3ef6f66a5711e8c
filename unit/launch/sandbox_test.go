package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/unitward/unitward/unit"
)

// What unitward needs in a sandbox is bound into it, whatever the paths are
// called, and nothing is where there is none.
func TestReachable(t *testing.T) {
	for _, a := range []string{"MemoryMax=1G", "PrivateDevices=yes"} {
		if ps, err := reachable(&unit.Spec{Properties: []string{a}}, nil, "/j", "/h", "/u"); len(ps) != 0 || err != nil {
			t.Errorf("%s: %v, %v", a, ps, err)
		}
	}
	for _, path := range []string{"/a", "/with space", "/with:colon", `/back\slash`, `/q"uo'te`, "/tab\tline\n"} {
		ps, err := reachable(&unit.Spec{Properties: []string{"PrivateTmp=yes"}}, nil, path, "/h", path+"/u")
		if err != nil || len(ps) != 2 {
			t.Errorf("%q: %v, %v", path, ps, err)
			continue
		}
		for i, want := range []string{
			fmt.Sprintf("[{%s %s false 16384} {/h /h false 16384}]", path, path),
			fmt.Sprintf("[{%s/u %s/u false 16384}]", path, path),
		} {
			if got := fmt.Sprint(ps[i].Value.Value()); got != want {
				t.Errorf("%s: %q, want %q", ps[i].Name, got, want)
			}
		}
	}
}

// The command of a job with another root directory is looked for in there.
func TestLocateBelowARoot(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "opt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "opt/tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, dir, path, in string }{
		{"tool", "/", "/opt/tool", "/"},
		{"tool", "srv", "/opt/tool", "/srv"},
		{"/opt/tool", "/", "/opt/tool", "/"},
		{"./tool", "/opt", "/opt/tool", "/opt"},
		{"sh", "/", "/bin/sh", "/"},
		{"no-such-command", "/", "", "/"},
	} {
		s := &unit.Spec{Command: []string{c.command}, Properties: []string{"RootDirectory=" + root}}
		err := Locate(s, c.dir, []string{"PATH=/bin:/opt"})
		var missing *unit.StartError
		switch {
		case c.path == "" && (!errors.As(err, &missing) || missing.Status != statusNotFound):
			t.Errorf("%s: %v", c.command, err)
		case c.path != "" && (err != nil || s.Path != c.path || s.Dir != c.in):
			t.Errorf("%s in %s: %s in %s, %v", c.command, c.dir, s.Path, s.Dir, err)
		}
	}
}
