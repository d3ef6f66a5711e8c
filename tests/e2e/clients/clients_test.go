// Package clients runs what others write to speak to unitward: the example
// clients of unitward serve in JavaScript and Python, and the official client of
// the Model Context Protocol against unitward-mcp.
package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/unitward/unitward/unit/serve" // a part of the programs that are built
	"github.com/unitward/unitward/verify"
)

// patience bounds a whole session. It is no expectation: one that takes this
// long has failed.
const patience = 2 * time.Minute

// modulesVariable says where npm has put what mcp/package.json names.
const modulesVariable = "UNITWARD_NODE_MODULES"

// dir has the programs under test.
var dir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	var err error
	if dir, err = os.MkdirTemp("", "unitward-clients-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-trimpath", "-o", dir, "./cmd/unitward", "./cmd/unitward-mcp")
	build.Dir, build.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the programs under test: %v\n%s", err, out)
		return 1
	}
	// The go command must know what the outcome depends on, or it takes an
	// earlier one.
	for _, pattern := range []string{"../../../cmd/unitward/*.go", "../../../cmd/unitward-mcp/*.go", "*.mjs", "*.py", "mcp/*"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	return m.Run()
}

// interpreter is a program that a client needs; make test installs it.
func interpreter(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("clients: %s is not installed; make test installs it, as root on Debian", name)
	}
	return path
}

// in runs a test in each isolation that needs no manager.
func in(t *testing.T, test func(*testing.T, string)) {
	for _, isolation := range []string{verify.IsolationCgroup, verify.IsolationGroup} {
		t.Run(isolation, func(t *testing.T) {
			if isolation == verify.IsolationCgroup && os.Geteuid() != 0 {
				t.Skip("cgroup: an ordinary user has no delegated cgroup here")
			}
			test(t, isolation)
		})
	}
}

// session runs a client, with a state directory of its own, and returns what it
// says. What it leaves is stopped.
func session(t *testing.T, argv ...string) string {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	env := append(os.Environ(), "UNITWARD_STATE_DIR="+state, "PYTHONDONTWRITEBYTECODE=1")
	t.Cleanup(func() {
		jobs, _ := os.ReadDir(filepath.Join(state, "jobs"))
		for _, j := range jobs {
			cmd := exec.Command(filepath.Join(dir, "unitward"), "stop", "--grace=0s", "-q", j.Name())
			cmd.Env = env
			if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState == nil {
				t.Errorf("cannot clean up %s: %v\n%s", j.Name(), err, out)
			}
		}
	})
	var out, errs bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = env, &out, &errs, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hang := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer hang.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), err, out.String(), errs.String())
	}
	if errs.Len() > 0 {
		t.Errorf("%s says:\n%s", strings.Join(argv, " "), errs.String())
	}
	return out.String()
}

// Both examples tell of the same session the same.
func TestExamples(t *testing.T) {
	want := []string{
		`{"step":"initialize","protocol":1,"server":"unitward"}`,
		`{"step":"start","isolation":"ISOLATION","code":3,"reason":"failed","confirmed":true,"stdout":"hällo\n","stderr":"oops\n",` +
			`"facts":{"exit":true,"streams":true,"tree":true,"settled":true}}`,
		`{"step":"stopOwner","all":true,"confirmed":true,"empty":true}`,
		`{"step":"cancel","cancelled":true,"confirmed":true,"reason":"cancelled"}`,
		`{"step":"abort","state":"remembered","kind":"aborted"}`,
		`{"step":"unknown","kind":"not_found","code":-32001}`,
		`{"step":"end","why":"eof","stopped":1,"left":true,"confirmed":true}`,
	}
	for file, program := range map[string]string{"unitward.mjs": "node", "unitward.py": "python3"} {
		t.Run(program, func(t *testing.T) {
			program := interpreter(t, program)
			in(t, func(t *testing.T, isolation string) {
				got := session(t, program, file, filepath.Join(dir, "unitward"), isolation)
				if all := strings.ReplaceAll(strings.Join(want, "\n"), "ISOLATION", isolation) + "\n"; got != all {
					t.Errorf("it says\n%s, want\n%s", got, all)
				}
			})
		})
	}
}

// An example is short, and needs nothing but its language.
func TestExamplesAreShort(t *testing.T) {
	standard := []string{"asyncio", "collections", "itertools", "json", "os", "sys"}
	for file, foreign := range map[string]func(line string) string{
		"unitward.mjs": func(line string) string {
			if _, from, ok := strings.Cut(line, " from "); ok && strings.HasPrefix(line, "import ") && !strings.HasPrefix(from, "'node:") {
				return from
			}
			return ""
		},
		"unitward.py": func(line string) string {
			words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' })
			if len(words) > 1 && words[0] == "from" {
				words = words[:2]
			} else if len(words) == 0 || words[0] != "import" {
				return ""
			}
			for _, name := range words[1:] {
				if !slices.Contains(standard, name) {
					return name
				}
			}
			return ""
		},
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte("\n")); n > 150 {
			t.Errorf("%s has %d lines", file, n)
		}
		for line := range strings.Lines(string(b)) {
			if from := foreign(line); from != "" {
				t.Errorf("%s needs %s", file, from)
			}
		}
	}
}

// The official client uses every kind of answer of unitward-mcp.
func TestOfficialClient(t *testing.T) {
	node := interpreter(t, "node")
	modules := os.Getenv(modulesVariable)
	if modules == "" {
		t.Skip("clients: the official client is not there; make test installs it, with npm")
	}
	in(t, func(t *testing.T, isolation string) {
		work := t.TempDir()
		// A module is looked for beside the program that needs it.
		program, err := os.ReadFile("mcp/drive.mjs")
		if err == nil {
			err = os.WriteFile(filepath.Join(work, "drive.mjs"), program, 0o600)
		}
		if err == nil {
			err = os.Symlink(modules, filepath.Join(work, "node_modules"))
		}
		if err != nil {
			t.Fatal(err)
		}
		got := session(t, node, filepath.Join(work, "drive.mjs"), filepath.Join(dir, "unitward-mcp"), isolation, work)
		if want := "tools\nrun\nthreshold\nprogress\ncancel\nfailure\nend\n"; got != want {
			t.Errorf("it says\n%s", got)
		}
	})
}

// What npm installs is pinned, by its content.
func TestLockIsWhole(t *testing.T) {
	b, err := os.ReadFile("mcp/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Integrity string }
	}
	if err := json.Unmarshal(b, &lock); err != nil || len(lock.Packages) < 2 {
		t.Fatalf("%d packages, %v", len(lock.Packages), err)
	}
	var loose []string
	for name, p := range lock.Packages {
		if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
			loose = append(loose, name)
		}
	}
	if slices.Sort(loose); len(loose) > 0 {
		t.Errorf("not pinned: %v", loose)
	}
}
