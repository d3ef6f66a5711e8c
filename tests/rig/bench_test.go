package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestBenchResults(t *testing.T) {
	dir := t.TempDir()
	b := &benchmarked{Schema: "unitward.bench/1", Commit: "0123456789ab", Runs: []json.RawMessage{json.RawMessage(`{"label":"sid, root"}`)}}
	if err := b.write(filepath.Join(dir, "new", "bench.json")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bench.json", "bench-0123456789ab.json"} {
		text, err := os.ReadFile(filepath.Join(dir, "new", name))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Commit string
			Runs   []struct{ Label string }
		}
		if err := json.Unmarshal(text, &got); err != nil || got.Commit != b.Commit || len(got.Runs) != 1 || got.Runs[0].Label != "sid, root" {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

func TestBenchCompanions(t *testing.T) {
	for _, s := range Suites {
		if got := s.companions(benchTests); !slices.Contains(got, "crun") {
			t.Errorf("%s: the benchmark has %q beside it", s.Name, got)
		}
	}
}
