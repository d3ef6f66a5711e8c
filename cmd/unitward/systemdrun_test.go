package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unitward/unitward/unit/launch"
)

// systemdRun has the options of systemd-run 262, which TestSystemdRunOptions holds
// against its --help.
const systemdRun = "../../tests/e2e/testdata/systemd-run.options"

var (
	tableEntry = regexp.MustCompile(`(?m)^\.It Fl -([\w-]+)(?: , Fl (\w))?\n([A-Z][a-z]*)`)
	difference = regexp.MustCompile(`(?m)^\.Ss ([a-z-]+)$`)
	testedWith = regexp.MustCompile(`differs: +"([\w-]+)"`)
)

// The table of the manual has every option of systemd-run once, and what it says
// of each is true of the command tree.
func TestTableOfSystemdRun(t *testing.T) {
	root, pages := tree(t)
	taken := map[string]bool{}
	for _, cmd := range root.Commands() {
		if name := cmd.Name(); name == "run" || name == "start" {
			take(cmd, taken)
		}
	}
	said := map[string]string{}
	for _, m := range tableEntry.FindAllStringSubmatch(string(pages["unitward-systemd-run.7"]), -1) {
		name := m[1]
		if m[2] != "" {
			name += "," + m[2]
		}
		if said[name] != "" {
			t.Errorf("the table has --%s twice", name)
		}
		said[name] = m[3]
	}
	options, err := os.ReadFile(systemdRun)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(options)) {
		switch word := said[name]; word {
		case "Same", "Better", "Less", "The", "Other":
			if !taken[name] {
				t.Errorf("--%s is called %s and is no option of run or start", name, word)
			}
		case "Left":
			if taken[name] {
				t.Errorf("--%s is called left out and is an option", name)
			}
		default:
			t.Errorf("the table says %q of --%s", word, name)
		}
		delete(said, name)
	}
	if len(said) > 0 {
		t.Errorf("systemd-run has none of %v", said)
	}
}

// take notes the options that a command shows, with their short forms.
func take(cmd *cobra.Command, taken map[string]bool) {
	_, help, _ := strings.Cut(cmd.UsageString(), "Flags:")
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-(\w), )?--([\w-]+)`).FindAllStringSubmatch(help, -1) {
		name := m[2]
		if m[1] != "" {
			name += "," + m[1]
		}
		taken[name] = true
	}
}

// Every difference that the comparison with systemd-run takes for intended is
// explained in the manual.
func TestDifferencesAreExplained(t *testing.T) {
	_, pages := tree(t)
	explained := map[string]bool{}
	for _, m := range difference.FindAllStringSubmatch(string(pages["unitward-systemd-run.7"]), -1) {
		explained[m[1]] = true
	}
	lines, err := os.ReadFile("../../tests/e2e/systemdrun_lines_test.go")
	if err != nil {
		t.Fatal(err)
	}
	found := testedWith.FindAllStringSubmatch(string(lines), -1)
	if len(found) < 10 {
		t.Errorf("%d differences were found in the comparison", len(found))
	}
	for _, m := range found {
		if !explained[m[1]] {
			t.Errorf("the difference %q is not explained", m[1])
		}
	}
}

// The manual names each option that does not go with a property.
func TestRefusedPairsAreListed(t *testing.T) {
	root, pages := tree(t)
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(pages["unitward-systemd-run.7"]), "\n.Ss left-out\n")
	pairs := map[string]string{}
	run.Flags().VisitAll(func(f *pflag.Flag) {
		if name := launch.Assigned(fieldOf(f.Name)); name != "" {
			pairs[f.Name] = name
		}
	})
	if len(pairs) == 0 {
		t.Fatal("there is no such pair")
	}
	for option, name := range pairs {
		if !strings.Contains(text, "\n.Fl -"+option+"\nand "+name+"=") {
			t.Errorf("--%s and %s= cannot be used together, and the manual does not say so", option, name)
		}
	}
}
