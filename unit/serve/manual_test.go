package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit/serve"
)

// The session that unitward-serve(5) shows is one that happens, with what is
// another each time made the same; the test of the page compares it with what
// is written here.
func TestExchangeOfTheManual(t *testing.T) {
	b, err := os.ReadFile("testdata/manual.exchange")
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, "", options{raw: true})
	var said strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if name, ok := strings.CutPrefix(line, "settled "); ok {
			c.settled(name)
			c.notified(&said, name)
			continue
		}
		show(&said, "> ", line)
		c.send(line)
		var req struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(line), &req); err != nil {
			t.Fatal(err)
		}
		show(&said, "< ", c.answer(string(req.ID)).raw)
	}
	c.end()
	c.notified(&said, "")
	golden(t, "testdata/manual.golden", []byte(said.String()))
}

// notified shows what was told of one job, or of none. Where time decides the
// order it is always the same one, and the facts are those of that order.
func (c *client) notified(said *strings.Builder, name string) {
	var lines []string
	for _, m := range c.Said() {
		if m.Method != "" && m.name == name {
			lines = append(lines, m.raw)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return rank(a) - rank(b) })
	var told serve.Facts
	for _, line := range lines {
		told.Exit = told.Exit || rank(line) == 2
		told.Tree = told.Tree || rank(line) == 3
		told.Streams = told.Streams || rank(line) == 4
		told.Settled = told.Settled || rank(line) == 5
		facts, _ := json.Marshal(told)
		show(said, "< ", regexp.MustCompile(`"facts":\{[^}]*\}`).ReplaceAllLiteralString(line, `"facts":`+string(facts)))
	}
}

// shown is what stands for what changes.
var shown = strings.NewReplacer(`"isolation":"BEST"`, `"isolation":"service"`, `"version":"test"`, `"version":"0.1.0"`, `"running":0`, `"running":8`,
	`"pid":0`, `"pid":4711`, `"TIME"`, `"2026-11-30T12:00:00Z"`, `DIR`, "/var/lib/unitward/jobs")

// show writes a message, broken into lines at commas, without its report.
func show(said *strings.Builder, who, line string) {
	line = shown.Replace(normal(line))
	if before, after, ok := strings.Cut(line, `"report":{`); ok {
		depth, quoted := 1, false
		for i := 0; depth > 0; i++ {
			switch {
			case quoted && after[i] == '\\':
				i++
			case after[i] == '"':
				quoted = !quoted
			case !quoted && after[i] == '{':
				depth++
			case !quoted && after[i] == '}':
				if depth--; depth == 0 {
					line = before + `"report":{...` + after[i:]
				}
			}
		}
	}
	const width = 66
	for indent := ""; ; indent = "   " {
		if len(line) <= width {
			fmt.Fprintln(said, who+indent+line)
			return
		}
		at := strings.LastIndexAny(line[:width], ",") + 1
		if at == 0 {
			at = width
		}
		fmt.Fprintln(said, who+indent+line[:at])
		line = line[at:]
	}
}
