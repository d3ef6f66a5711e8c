package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unitward/unitward/cmd/internal/program"
	"github.com/unitward/unitward/packaging/manual"
)

// tree is the whole command line, and the manual pages that are made of it.
func tree(t *testing.T) (*cobra.Command, map[string][]byte) {
	t.Helper()
	root := (&app{}).root(nil)
	pages, err := manual.Pages(root, os.DirFS("manual"), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return root, pages
}

var (
	helpOption = regexp.MustCompile(`(?m)^ +(?:(-\w), |    )(--[\w-]+)(?: |$)`)
	pageOption = regexp.MustCompile(`(?m)^\.It (?:Fl (\w) , )?Fl (-[\w-]+)(?: Ar \S+)?$`)
)

// Every option of a command stands in its help, on its page and in what a
// shell proposes, with its short form, and no other does.
func TestOptionsEverywhere(t *testing.T) {
	root, pages := tree(t) // from this directory, which alone leaves
	alone(t)
	for _, cmd := range append(root.Commands(), root) {
		if cmd.Hidden || cmd.Name() == "help" {
			continue
		}
		line := strings.Fields(cmd.CommandPath())[1:]
		var want []string
		each := func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			want = append(want, "--"+f.Name)
			if f.Shorthand != "" {
				want = append(want, "-"+f.Shorthand)
			}
		}
		cmd.LocalFlags().VisitAll(each)
		cmd.InheritedFlags().VisitAll(each)
		slices.Sort(want)

		_, help, _ := do(t, append(line, "--help")...)
		compare(t, cmd.CommandPath()+" --help", matches(helpOption, help), want)

		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page := string(pages[name])
		if page == "" {
			t.Errorf("%s has no page", cmd.CommandPath())
			continue
		}
		compare(t, name, matches(pageOption, strings.ReplaceAll(page, "Fl -", "Fl --")), want)

		_, proposed, _ := do(t, append(append([]string{cobra.ShellCompNoDescRequestCmd}, line...), "-")...)
		var got []string
		for l := range strings.Lines(proposed) {
			if strings.HasPrefix(l, "-") {
				got = append(got, strings.TrimSpace(l))
			}
		}
		compare(t, "the completion of "+cmd.CommandPath(), got, want)
	}
}

func matches(re *regexp.Regexp, text string) []string {
	var out []string
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		for _, option := range m[1:] {
			if option == "" {
				continue
			}
			out = append(out, "-"+strings.TrimLeft(option, "-"))
			if strings.HasPrefix(option, "--") {
				out[len(out)-1] = option
			}
		}
	}
	return out
}

func compare(t *testing.T, where string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s has the options\n  %s, the command\n  %s", where, strings.Join(got, " "), strings.Join(want, " "))
	}
}

// Every verb stands in the help, on the first page and in the completion.
func TestVerbsEverywhere(t *testing.T) {
	_, pages := tree(t)
	alone(t)
	want := append(slices.Collect(maps.Keys((&app{}).verbs())), "help")
	slices.Sort(want)
	_, help, _ := do(t, "--help")
	_, proposed, _ := do(t, cobra.ShellCompNoDescRequestCmd, "")
	for where, re := range map[string]struct {
		pattern string
		text    string
	}{
		"the help":       {`(?m)^  ([a-z]+) {2,}[A-Z]`, help},
		"the page":       {`(?m)^\.It (?:Xr unitward-([a-z]+) 1|Cm (help) .*)$`, string(pages["unitward.1"])},
		"the completion": {`(?m)^([a-z]+)$`, proposed},
	} {
		var got []string
		for _, m := range regexp.MustCompile(re.pattern).FindAllStringSubmatch(re.text, -1) {
			got = append(got, strings.Join(m[1:], ""))
		}
		compare(t, where, got, want)
	}
}

// The exit statuses and the states that the prose names are the program's own,
// and a page that is referred to exists.
func TestProse(t *testing.T) {
	_, pages := tree(t)
	others := map[string]bool{}
	for _, p := range strings.Fields("at.1 jq.1 journalctl.1 machinectl.1 reset.1 ssh.1 systemd-escape.1 unitward-mcp.1 systemctl.1 systemd-run.1 systemd.exec.5 systemd.resource-control.5 systemd.service.5 cgroups.7 systemd.time.7 cron.8") {
		others[p] = true
	}
	reference := regexp.MustCompile(`\bXr (\S+) (\d)`)
	for name, page := range pages {
		for _, m := range reference.FindAllStringSubmatch(string(page), -1) {
			if to := m[1] + "." + m[2]; pages[to] == nil && !others[to] {
				t.Errorf("%s refers to %s, which is no page", name, to)
			}
		}
	}
	for _, page := range []string{"unitward-run.1", "unitward.7"} {
		for _, status := range []string{"123", "124", "125", "126", "127", "128+N"} {
			if !strings.Contains(string(pages[page]), "\n.It "+status) {
				t.Errorf("%s does not name exit status %s", page, status)
			}
		}
	}
	if _, err := manual.Pages((&app{}).root(nil), os.DirFS("testdata/prose"), time.Now()); err == nil {
		t.Error("prose for a verb that is not there was taken")
	}
}

// Every field of a report, and every value that names a kind, stands in
// unitward-report(5).
func TestReportPage(t *testing.T) {
	_, pages := tree(t)
	page := string(pages["unitward-report.5"])
	for _, field := range reportFields() {
		if !regexp.MustCompile(`\bCm (?:\w+ , )*` + field + `\b`).MatchString(page) {
			t.Errorf("unitward-report(5) does not name %s", field)
		}
	}
	for _, v := range reportValues {
		if !strings.Contains(page, "Dq "+v) {
			t.Errorf("unitward-report(5) does not name the value %s", v)
		}
	}
}

// A shell is offered what an option takes.
func TestValuesOfOptions(t *testing.T) {
	alone(t)
	t.Setenv("PAGER_OF_A_TEST", "x")
	for _, c := range []struct{ line, want string }{
		{"run --isolation ", "cgroup"}, {"run --kill-signal ", "TERM"}, {"wait --for ", "tree"}, {"kill -s ", "HUP"},
		{"run --setenv PAGER", "PAGER_OF_A_TEST"}, {"run --uid ro", "root"}, {"run -- tru", "true"}, {"start en", "env"},
		{"run -p MemoryMa", "MemoryMax="}, {"start --property=ProtectHome=t", "ProtectHome=tmpfs"}, {"start --timer-property Acc", "AccuracySec="},
		{"start --socket-property ListenF", "ListenFIFO="}, {"start --path-property PathEx", "PathExists="}, {"run --slice ", ":4"}, {"run --job-mode ", "lenient"},
		{"run --lifetime ", "owner"}, {"run --working-directory ", ":16"}, {"run --timeout ", ":4"}, {"doctor ", ":4"},
	} {
		words := strings.Split(c.line, " ")
		_, out, _ := do(t, append([]string{cobra.ShellCompNoDescRequestCmd}, words...)...)
		if !slices.Contains(strings.Split(out, "\n"), c.want) {
			t.Errorf("%q offers no %s: %q", c.line, c.want, out)
		}
	}
	for _, scope := range []string{"--scope", "--isolation=scope"} {
		if _, out, _ := do(t, cobra.ShellCompNoDescRequestCmd, "run", scope, "-p", ""); strings.Contains(out, "PrivateTmp=") || !strings.Contains(out, "\nMemoryMax=\n") || strings.Contains(out, "RuntimeMaxSec=") {
			t.Errorf("with %s there is offered %q", scope, out)
		}
	}
	// A mark of the help is none of a shell's.
	if _, out, _ := do(t, cobra.ShellCompRequestCmd, "run", "--uni"); out != "--unit\tname the job, and its unit, NAME\n:4\n" {
		t.Errorf("--uni offers %q", out)
	}
}

// Slices are found through slices alone, where a unit of another type ends the
// way.
func TestSlicesBelow(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"a.slice/a-b.slice/x.service/c.slice", "d.slice", "y.scope"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := slicesBelow(root); !slices.Equal(got, []string{"a.slice", "a-b.slice", "d.slice"}) {
		t.Errorf("%v", got)
	}
	if got := slicesBelow(filepath.Join(root, "nowhere")); got != nil {
		t.Errorf("%v", got)
	}
}

func TestVersion(t *testing.T) {
	alone(t)
	_, verb, errs := do(t, "version")
	status, option, _ := do(t, "--version")
	if status != 0 || errs != "" || verb != option || !strings.HasPrefix(verb, "unitward version ") || !strings.Contains(verb, "go1.") {
		t.Errorf("version: %d, %q, %q; --version: %q", status, verb, errs, option)
	}
	_, out, _ := do(t, "version", "--json")
	for _, field := range []string{`"version":"`, `"commit":"`, `"date":"`, `"go":"go1.`} {
		if !strings.Contains(out, field) {
			t.Errorf("version --json has no %s: %s", field, out)
		}
	}
	id := program.Identity{Version: "1.2.3", Commit: "abc", Date: "2026-01-02T00:00:00Z", Go: "go1.26"}
	if got := id.String(); got != "1.2.3 (commit abc, 2026-01-02T00:00:00Z, go1.26)" {
		t.Errorf("a release is %q", got)
	}
	if got := (program.Identity{Go: "go1.26"}).String(); got != "(devel) (go1.26)" {
		t.Errorf("what is not known: %q", got)
	}
}
