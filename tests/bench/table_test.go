package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	d := document{Label: "sid, root", Kernel: "6.1", CPUs: 2, LoadBefore: 0.5, LoadAfter: 1, Rows: []row{
		{Group: "latency", Name: "run", Unit: "ms", P50: 8.123, P95: 123.45, N: 60, Against: []comparison{
			{To: "systemd-run", Value: 0.79, AtMost: 0.8}, {To: "crun", Value: 0.5}}},
		{Group: "latency", Name: "crun", Unit: "ms", Lacking: "cannot find crun"},
		{Group: "verdict", Name: "run", Unit: "ms", P50: 3, P95: 4, N: 1, Against: []comparison{{Value: 3, AtMost: 2}}},
	}}
	var out bytes.Buffer
	if err := d.print(&out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"sid, root: 6.1, 2 processors, load 0.50 before, 1.00 after",
		"WHAT WHO P50 P95 UNIT N RATIO TO TARGET",
		"latency run 8.12 123.5 ms 60 0.79 systemd-run ≤ 0.8 reached",
		"0.50 crun",
		"latency crun - - ms 0 LACKING: cannot find crun",
		"verdict run 3.00 4.00 ms 1 ≤ 2 MISSED",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the table:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCompare(t *testing.T) {
	write := func(c collection) string {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	of := func(commit string, rows ...row) collection {
		return collection{Schema: schema, Commit: commit, Runs: []document{{Label: "sid, root", Rows: rows}}}
	}
	older := write(of("aaa",
		row{Group: "latency", Name: "run", Unit: "ms", P50: 10, N: 3, Against: []comparison{{To: "crun", Value: 0.5}, {To: "systemd-run", Value: 0.9}}},
		row{Group: "latency", Name: "gone", Unit: "ms", P50: 1, N: 3},
		row{Group: "latency", Name: "lacked", Unit: "ms"}))
	newer := write(of("bbb",
		row{Group: "latency", Name: "run", Unit: "ms", P50: 8, N: 3, Against: []comparison{{To: "systemd-run", Value: 0.8}}},
		row{Group: "latency", Name: "lacked", Unit: "ms", P50: 1, N: 3},
		row{Group: "latency", Name: "fresh", Unit: "ms", P50: 1, N: 3}))
	var out bytes.Buffer
	if err := compareFiles(&out, older, newer); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || lines[0] != "from aaa to bbb" {
		t.Fatalf("the comparison:\n%s", out.String())
	}
	if got, want := strings.Join(strings.Fields(lines[2]), " "), "sid, root latency run 10.00 8.00 ms 0.80 0.90 0.80 systemd-run"; got != want {
		t.Errorf("the row: %q, want %q", got, want)
	}
	if err := compareFiles(&out, older, write(collection{Schema: "other/1"})); err == nil {
		t.Error("a file of another form is taken")
	}
	if err := compareFiles(&out, older, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is taken")
	}
}
