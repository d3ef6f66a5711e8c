package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What is proposed at the end of a command line, of what begins as the word does,
// and that no shell proposes files beside it, but for a command.
func TestComplete(t *testing.T) {
	alone(t)
	if err := os.Mkdir("programs", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("programs", "make-it"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(os.Getenv("HOME"), "programs"))
	t.Setenv("A_VARIABLE", "x")
	for _, c := range []struct{ line, word, want string }{
		{"run -p", "ProtectSystem=s", "ProtectSystem=strict"},
		{"run -p", "MemoryM", "MemoryMax= MemoryMin="},
		{"start --property", "KillMod", ""}, // one that is refused
		{"start --timer-property", "OnCal", "OnCalendar="},
		{"start --path-property", "PathEx", "PathExists= PathExistsGlob="},
		{"start --socket-property", "ListenS", "ListenSequentialPacket= ListenSpecial= ListenStream="},
		{"kill -s", "TER", "TERM"},
		{"kill -s", "SIGTER", "SIGTERM"},
		{"run --kill-signal", "RTMIN+1", "RTMIN+1 RTMIN+10 RTMIN+11 RTMIN+12 RTMIN+13 RTMIN+14 RTMIN+15 RTMIN+16 RTMIN+17 RTMIN+18 RTMIN+19"},
		{"kill -s", "3", ""},
		{"kill --who", "", "main all"},
		{"run -M", ".h", ".host"},
		{"run -H", "", ""},
		{"run --uid", "roo", "root"},
		{"run -E", "A_VAR", "A_VARIABLE"},
		{"run --isolation", "s", "service scope"},
		{"run --job-mode", "fl", "flush"},
		{"run --lifetime", "", "call owner detached"},
		{"wait --for", "", "exit tree settled"},
		{"run", "make-", "make-it"},
		{"start --timeout 1s --", "make-", "make-it"},
		{"", "verif", "verify"},
		{"status", "", ""},
	} {
		args := append([]string{"__complete"}, append(strings.Fields(c.line), c.word)...)
		status, out, _ := do(t, args...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var got []string
		for _, l := range lines[:len(lines)-1] {
			if l, _, _ = strings.Cut(l, "\t"); strings.HasPrefix(l, c.word) {
				got = append(got, l)
			}
		}
		directive, _ := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
		if files := directive&int(cobra.ShellCompDirectiveNoFileComp) == 0; files != (c.want == "make-it") {
			t.Errorf("%s %s: files are proposed: %v", c.line, c.word, files)
		}
		if !slices.Equal(got, strings.Fields(c.want)) || status != 0 {
			t.Errorf("%s %s: %q is proposed with status %d, want %q", c.line, c.word, got, status, c.want)
		}
	}
}
