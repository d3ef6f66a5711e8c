package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/unitward/unitward/verify"
)

var (
	unitInScript  = regexp.MustCompile(`(?:-u|--unit)[ =]([A-Za-z0-9@._-]+)`)
	sleepInScript = regexp.MustCompile(`\bsleep \d{3,}\b`)
	globsInScript = regexp.MustCompile(`(?m)^nounit .*$`)
)

// The scripts of a directory run beside one another, with one manager: none uses
// a name or looks for a process of another.
func TestScriptsApart(t *testing.T) {
	for _, dir := range []string{"testdata", "testdata/service"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", dir, paths, err)
		}
		user, globs := map[string]string{}, map[string]string{}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			used := sleepInScript.FindAllString(string(b), -1)
			for _, m := range unitInScript.FindAllStringSubmatch(string(b), -1) {
				used = append(used, m[1])
			}
			for _, what := range used {
				if other := user[what]; other != "" && other != path {
					t.Errorf("%s and %s both use %s", other, path, what)
				}
				user[what] = path
			}
			for _, line := range globsInScript.FindAllString(string(b), -1) {
				for _, glob := range strings.Fields(line)[1:] {
					globs[glob] = path
				}
			}
		}
		for glob, path := range globs {
			for what, other := range user {
				if ok, err := filepath.Match(glob, what); err != nil || ok && other != path {
					t.Errorf("%s wants no unit %s, and %s has %s (%v)", path, glob, other, what, err)
				}
			}
		}
	}
}

// What another script runs under a name that unitward made up is not looked at.
func TestNoUnitOfAnother(t *testing.T) {
	in(t, []string{verify.IsolationService, verify.IsolationScope}, func(t *testing.T, w *ward) {
		w.env = append(os.Environ(), "WORK=/a")
		f := w.run("-u", "of-another", "--", "sleep", "1392")
		alive(t, "sleep", "1392")
		unit := strings.Fields(loadedUnits("of-another*"))[0]
		if ofAnother(unit, "/a") || !ofAnother(unit, "/b") || ofAnother("of-anothe", "/b") {
			t.Errorf("%s: of another than /a: %v, than /b: %v; none of that name: %v", unit, ofAnother(unit, "/a"), ofAnother(unit, "/b"), ofAnother("of-anothe", "/b"))
		}
		f.signal(syscall.SIGTERM)
		f.wantStatus(143)
		if ofAnother(unit, "/b") {
			t.Errorf("%s has ended", unit)
		}
	})
}
