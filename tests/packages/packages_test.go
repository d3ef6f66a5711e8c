// Package packages has the tests of what users install: on the host, what is in
// the packages and what the distributions' own checkers say of them; in the
// rig's machines, what becomes of them.
package packages

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programs are those that have a package each, with the most that each may
// take.
var programs = map[string]int64{"unitward": 6 << 20, "unitward-mcp": 12 << 20}

// built is where one of the three builds is.
func built(t *testing.T, which string) string {
	t.Helper()
	dir := os.Getenv("UNITWARD_PACKAGES")
	if dir == "" {
		t.Skip("packages: make test builds them")
	}
	return filepath.Join(dir, which)
}

// files are those of a build that match a pattern; there have to be n.
func files(t *testing.T, dir, pattern string, n int) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != n {
		t.Fatalf("%d files match %s in %s, want %d: %v", len(found), pattern, dir, n, found)
	}
	return found
}

// tool runs a program and returns what it printed, on both streams.
func tool(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// unpack lays out a program's package for an architecture.
func unpack(t *testing.T, name, arch string) string {
	t.Helper()
	deb := files(t, built(t, "first"), name+"_*_"+arch+".deb", 1)[0]
	dir := t.TempDir()
	tool(t, "dpkg-deb", "-x", deb, dir)
	return dir
}

// Two builds, by users with other habits, are the same to the byte.
func TestReproducible(t *testing.T) {
	first, second := built(t, "first"), built(t, "second")
	names := func(dir string) []string {
		var out []string
		for _, f := range files(t, dir, "*.*", 6*len(programs)) {
			out = append(out, filepath.Base(f))
		}
		return append(out, "SHA256SUMS")
	}
	want := names(first)
	if got := names(second); !slices.Equal(got, want) {
		t.Fatalf("the second build has %v, the first %v", got, want)
	}
	sums := map[string]string{}
	for _, name := range want {
		a, err1 := os.ReadFile(filepath.Join(first, name))
		b, err2 := os.ReadFile(filepath.Join(second, name))
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs between two builds (%v, %v)", name, err1, err2)
		}
		sum := sha256.Sum256(a)
		sums[name] = hex.EncodeToString(sum[:])
	}
	b, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != len(want)-1 {
		t.Errorf("SHA256SUMS has %d lines, want %d", len(lines), len(want)-1)
	}
	for _, l := range lines {
		sum, name, _ := strings.Cut(l, "  ")
		if sums[name] != sum {
			t.Errorf("SHA256SUMS says %q of %q, which has %q", sum, name, sums[name])
		}
	}
}

// A program is one static file without symbols, and not too large.
func TestProgram(t *testing.T) {
	for name, most := range programs {
		for _, arch := range []string{"amd64", "arm64"} {
			path := filepath.Join(unpack(t, name, arch), "usr/bin", name)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > most || info.Mode().Perm() != 0o755 {
				t.Errorf("%s, %s: %d bytes, at most %d are allowed; mode %v", name, arch, info.Size(), most, info.Mode())
			}
			t.Logf("%s, %s: %d bytes", name, arch, info.Size())
			f, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range f.Progs {
				if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
					t.Errorf("%s, %s: it is linked to something: %v", name, arch, p.Type)
				}
			}
			if f.Section(".symtab") != nil || f.Section(".debug_info") != nil || f.Section(".zdebug_info") != nil {
				t.Errorf("%s, %s: it is not stripped", name, arch)
			}
			f.Close()
		}
	}
}

// The list of modules is the binary's, and each of them has its licence told.
// What speaks to agents brings many, and none to the launcher.
func TestModules(t *testing.T) {
	for name := range programs {
		root := unpack(t, name, "arm64")
		doc := filepath.Join(root, "usr/share/doc", name)
		b, err := os.ReadFile(filepath.Join(doc, name+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			BOMFormat   string
			SpecVersion string
			Components  []struct{ Name, Version, PURL string }
		}
		if err := json.Unmarshal(b, &list); err != nil || list.BOMFormat != "CycloneDX" || list.SpecVersion == "" {
			t.Fatalf("%v: %s", err, b)
		}
		copyright, err := os.ReadFile(filepath.Join(doc, "copyright"))
		if err != nil {
			t.Fatal(err)
		}
		noted := tool(t, "go", "version", "-m", filepath.Join(root, "usr/bin", name))
		for _, c := range list.Components {
			if !strings.Contains(string(copyright), c.Name+"/*") {
				t.Errorf("the copyright file of %s does not name %s", name, c.Name)
			}
			if c.Name != "std" && !strings.Contains(noted, "\tdep\t"+c.Name+"\t"+c.Version+"\t") {
				t.Errorf("%s has no %s %s:\n%s", name, c.Name, c.Version, noted)
			}
			if name == "unitward" && strings.Contains(c.Name, "modelcontextprotocol") {
				t.Errorf("%s has %s", name, c.Name)
			}
		}
		if n := strings.Count(noted, "\tdep\t"); n != len(list.Components)-1 {
			t.Errorf("%s has %d modules, the list %d", name, n, len(list.Components)-1)
		}
	}
}

// Installing is laying out files: nothing is started, enabled, asked or needed.
func TestNothingHappens(t *testing.T) {
	for _, deb := range files(t, built(t, "first"), "*.deb", 2*len(programs)) {
		// The launcher needs nobody; who else there is needs it.
		launcher := strings.HasPrefix(filepath.Base(deb), "unitward_")
		dir := t.TempDir()
		tool(t, "dpkg-deb", "-e", deb, dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want, needs, recommends := []string{"control", "md5sums"}, "unitward", ""
		if launcher {
			want, needs, recommends = append(want, "postrm", "prerm"), "", "dbus-user-session"
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s has %v, want %v", filepath.Base(deb), names, want)
		}
		for field, want := range map[string]string{"Depends": needs, "Pre-Depends": "", "Conflicts": "", "Recommends": recommends} {
			if got := strings.TrimSpace(tool(t, "dpkg-deb", "-f", deb, field)); got != want {
				t.Errorf("%s has %s: %s", filepath.Base(deb), field, got)
			}
		}
	}
	needTool(t, "rpm")
	for _, rpm := range files(t, built(t, "first"), "*.rpm", 2*len(programs)) {
		needs := "unitward"
		if !strings.HasPrefix(filepath.Base(rpm), "unitward-mcp-") {
			needs = ""
		}
		if got := strings.TrimSpace(tool(t, "rpm", "-qp", "--requires", "--scripts", "--triggers", rpm)); got != needs {
			t.Errorf("%s needs or does something: %s", filepath.Base(rpm), got)
		}
	}
}

// make install lays out what the packages do, but for what only they need.
func TestMakeInstall(t *testing.T) {
	for name, target := range map[string]string{"unitward": "install", "unitward-mcp": "install-mcp"} {
		packaged := list(t, filepath.Join(unpack(t, name, "amd64"), "usr"))
		dest := t.TempDir()
		cmd := exec.Command("make", "--no-print-directory", target, "PREFIX=/opt/x", "DESTDIR="+dest)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
		installed := list(t, filepath.Join(dest, "opt/x"))
		only := map[string]bool{}
		for _, f := range packaged {
			f = strings.TrimSuffix(f, ".gz")
			f = strings.Replace(f, "zsh/vendor-completions", "zsh/site-functions", 1)
			only[f] = true
		}
		for _, f := range installed {
			if !only[f] {
				t.Errorf("make %s has %s, the package does not", target, f)
			}
			delete(only, f)
		}
		doc := "share/doc/" + name + "/"
		for _, f := range []string{doc + "changelog.Debian", doc + "copyright", doc + name + ".cdx.json", "share/lintian/overrides/" + name} {
			delete(only, f)
		}
		for f := range only {
			t.Errorf("the package has %s, make %s does not", f, target)
		}
		if out := tool(t, filepath.Join(dest, "opt/x/bin", name), "--version"); !strings.HasPrefix(out, name+" version ") || strings.Contains(out, "(devel)") {
			t.Errorf("it says: %s", out)
		}
		if name == "unitward" {
			if to, err := os.Readlink(filepath.Join(dest, "opt/x/bin/unitward-shell")); to != "unitward" {
				t.Errorf("unitward-shell leads to %q: %v", to, err)
			}
		}
	}
}

func list(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		out = append(out, rel)
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatal(fmt.Errorf("cannot list %s: %d files, %w", root, len(out), err))
	}
	return out
}
