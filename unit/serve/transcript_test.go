package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A script has one line for each thing that a client does: a request, "wait
// METHOD NAME" for a notification, "answer ID" for a reply. The transcript is
// what was said, by whom, in an order that does not depend on time: that of the
// script for answers, that of each job for notifications.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := dial(t, "", options{raw: true})
			var said strings.Builder
			for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
				play(c, line, &said)
			}
			c.end()
			said.WriteString("# job by job\n")
			order, by := []string{}, map[string][]string{}
			for _, m := range c.Said() {
				if m.Method == "" {
					continue
				}
				if by[m.name] == nil {
					order = append(order, m.name)
				}
				by[m.name] = append(by[m.name], "< "+moment(m))
			}
			for _, name := range order {
				slices.SortStableFunc(by[name], func(a, b string) int { return rank(a) - rank(b) })
				fmt.Fprintln(&said, strings.Join(by[name], "\n"))
			}
			golden(t, strings.TrimSuffix(file, ".script")+".golden", []byte(said.String()))
		})
	}
}

func play(c *client, line string, said *strings.Builder) {
	c.t.Helper()
	words := strings.Fields(line)
	switch {
	case len(words) == 0 || strings.HasPrefix(line, "#"):
		fmt.Fprintln(said, line)
	case words[0] == "wait":
		c.told(words[1], words[2])
	case words[0] == "answer":
		fmt.Fprintln(said, "< "+normal(c.answer(words[1]).raw))
	default:
		fmt.Fprintln(said, "> "+line)
		c.send(line)
		var req struct {
			ID     json.RawMessage
			Params struct{ Later bool }
		}
		if json.Unmarshal([]byte(line), &req) == nil && req.ID != nil && !strings.Contains(line, `"job.wait"`) && !strings.Contains(line, `"job.run"`) {
			fmt.Fprintln(said, "< "+normal(c.answer(string(req.ID)).raw))
		}
	}
}

// What is another in each run.
var changing = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"[0-9]{4}-[0-9]{2}-[0-9]{2}T[^"]*"`), `"TIME"`},
	{regexp.MustCompile(`"(pid|duration_ms|cpu_ns|age_ms|memory_bytes|running)":[0-9]+`), `"$1":0`},
	{regexp.MustCompile(`"(boot_id|host)":"[^"]*"`), `"$1":"ID"`},
	{regexp.MustCompile(`("server":\{[^}]*\}|"capabilities":\{[^}]*\}|"isolation":"(?:cgroup|service|group|scope)","limits")`), `$1`},
	{regexp.MustCompile(`"isolation":"[a-z]+","limits":\{"line`), `"isolation":"BEST","limits":{"line`},
	{regexp.MustCompile(`(?:session|descendants|group|process) [0-9]+`), `process N`},
	{regexp.MustCompile(`[0-9]+ \(sleep`), `N (sleep`},
	{regexp.MustCompile(`/tmp/[^" ,]*`), `DIR`},
}

// moment is a notification without what depends on which fact came first.
func moment(m message) string {
	line := normal(m.raw)
	if m.Method == "job/started" || m.Method == "job/settled" {
		return line
	}
	return regexp.MustCompile(`"facts":\{[^}]*\}`).ReplaceAllString(line, `"facts":{…}`)
}

// rank is the order of notifications of one job, where time decides it.
func rank(line string) int {
	for i, method := range []string{"job/started", "job/output", "job/exit", "job/tree", "job/streams", "job/settled"} {
		if strings.Contains(line, `"method":"`+method+`"`) {
			return i
		}
	}
	return -1
}

func normal(line string) string {
	line = strings.TrimSpace(line)
	for _, c := range changing {
		line = c.pattern.ReplaceAllString(line, c.with)
	}
	return line
}
