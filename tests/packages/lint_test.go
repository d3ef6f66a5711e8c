package packages

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// needTool ends a test whose checker is not there.
func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("packages: needs %s", name)
	}
}

func TestLintian(t *testing.T) {
	debs := files(t, built(t, "first"), "*.deb", 2*len(programs))
	needTool(t, "lintian")
	args := append([]string{"lintian", "-I", "--pedantic", "--fail-on", "none", "--allow-root"}, debs...)
	for line := range strings.Lines(tool(t, args...)) {
		if !misreadsCode(t, line) {
			t.Errorf("lintian says: %s", line)
		}
	}
}

var misspelt = regexp.MustCompile(`^I: (\S+): spelling-error-in-binary (\S+) .*\[(\S+)\]`)

// misreadsCode is true for a word that lintian has found in the instructions of a
// program, and which is nowhere in its text.
func misreadsCode(t *testing.T, line string) bool {
	t.Helper()
	m := misspelt.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	for _, arch := range []string{"amd64", "arm64"} {
		f, err := elf.Open(filepath.Join(unpack(t, m[1], arch), m[3]))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, s := range f.Sections {
			if s.Type == elf.SHT_NOBITS || s.Flags&elf.SHF_EXECINSTR != 0 {
				continue
			}
			b, err := s.Data()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte(m[2])) {
				return false
			}
		}
	}
	return true
}

func TestRpmlint(t *testing.T) {
	rpms := files(t, built(t, "first"), "*.rpm", 2*len(programs))
	needTool(t, "rpmlint")
	needTool(t, "rpm") // it reads packages by it, and unpacks them by cpio
	needTool(t, "cpio")
	relativeCpio(t)
	args := append([]string{"rpmlint", "-c", "../../packaging/rpm/rpmlint.toml"}, rpms...)
	out := tool(t, args...)
	if !strings.Contains(out, strconv.Itoa(2*len(programs))+" packages and 0 specfiles checked; 0 errors, 0 warnings") {
		t.Errorf("rpmlint says:\n%s", out)
	}
}

// relativeCpio puts a cpio before the machine's that unpacks into the directory in
// which it is called: nfpm writes absolute names, and rpmlint does not say that they
// are to be taken without their slash, as rpm does. The machine's own files would be
// written, and none of the package's looked at.
func relativeCpio(t *testing.T) {
	t.Helper()
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nexec " + cpio + " --no-absolute-filenames \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "cpio"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// mandoc has nothing to say, but that it does not know pages which are not
// installed here; which pages there are, a test of the command line knows.
func TestMandoc(t *testing.T) {
	launcher, mcp := unpack(t, "unitward", "amd64"), unpack(t, "unitward-mcp", "amd64")
	needTool(t, "mandoc")
	pages := 0
	for _, root := range []string{launcher, mcp} {
		found, err := filepath.Glob(filepath.Join(root, "usr/share/man/man[157]/*.[157].gz"))
		if err != nil || len(found) == 0 {
			t.Fatal(found, err)
		}
		for _, page := range found {
			pages++
			cmd := exec.Command("mandoc", "-Tlint", page)
			out, _ := cmd.Output() // its status is what it has to say
			for line := range strings.Lines(string(out)) {
				if !strings.Contains(line, "STYLE: referenced manual not found:") {
					t.Error(strings.TrimSpace(strings.TrimPrefix(line, "mandoc: "+root)))
				}
			}
		}
	}
	if pages < 15 {
		t.Errorf("%d pages were found", pages)
	}
}

// A shell parses what it is to read.
func TestCompletionsParse(t *testing.T) {
	root := unpack(t, "unitward", "amd64")
	script := filepath.Join(root, "usr/share/bash-completion/completions/unitward")
	tool(t, "bash", "-n", script)
	b, err := os.ReadFile(filepath.Join(root, "usr/share/zsh/vendor-completions/_unitward"))
	if err != nil || !strings.HasPrefix(string(b), "#compdef unitward\n") {
		t.Errorf("_unitward begins with %.20q, %v", b, err)
	}
}
