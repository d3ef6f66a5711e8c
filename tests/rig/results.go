package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is a line of test2json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build output
	Test        string
	Output      string
	FailedBuild string
}

// Outcome is how one test ended.
type Outcome struct {
	Package string
	Test    string
	Action  string // pass, fail, skip
	Output  string
}

// Reason is why a test was skipped, without the place in the source.
func (o Outcome) Reason() string {
	var reason []string
	for line := range strings.Lines(o.Output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		reason = append(reason, place.ReplaceAllString(line, ""))
	}
	return strings.Join(reason, " ")
}

var place = regexp.MustCompile(`^[\w.-]+\.go:\d+: `)

// testRun is one test binary, in one place, as one user.
type testRun struct {
	Where    string // a suite with its systemd, or "unit"
	User     string
	Package  string // directory from the module's root
	Log      string // on the host
	Outcomes []Outcome
	Err      error // why it could not run to its end
	Took     time.Duration
	Left     []string // the processes and units that it left behind, which is a failure
}

// whole is the name of the package's own outcome.
const whole = "(the package itself)"

// collect reads test2json's events. It copies what the tests print to log.
func collect(r io.Reader, log io.Writer) ([]Outcome, error) {
	type key struct{ pkg, test string }
	output := map[key]*strings.Builder{}
	var ended []Outcome
	at := func(k key) *strings.Builder {
		if output[k] == nil {
			output[k] = &strings.Builder{}
		}
		return output[k]
	}
	dec := json.NewDecoder(r)
	for {
		var e event
		if err := dec.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return ended, fmt.Errorf("cannot read the test's events: %w", err)
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output":
			at(k).WriteString(e.Output)
			if _, err := io.WriteString(log, e.Output); err != nil {
				return ended, err
			}
		case "build-output":
			at(key{e.ImportPath, ""}).WriteString(e.Output)
			if _, err := io.WriteString(log, e.Output); err != nil {
				return ended, err
			}
		case "pass", "fail", "skip":
			if e.FailedBuild != "" && e.FailedBuild != e.Package {
				at(k).WriteString(at(key{e.FailedBuild, ""}).String())
			}
			ended = append(ended, Outcome{Package: e.Package, Test: e.Test, Action: e.Action, Output: at(k).String()})
			delete(output, k)
		}
	}
	for k, out := range output { // a binary that died names nobody to blame
		if k.test != "" && strings.Contains(out.String(), "=== RUN") {
			ended = append(ended, Outcome{Package: k.pkg, Test: k.test, Action: "fail", Output: out.String() + "it did not end\n"})
		}
	}
	return leaves(ended), nil
}

// leaves keeps the outcomes that say something of their own: a test with
// subtests, and a package, count only when they failed and none of theirs did.
func leaves(all []Outcome) []Outcome {
	parents := map[[2]string]bool{}
	guilty := map[[2]string]bool{} // something below it failed
	for _, o := range all {
		for name := o.Test; name != ""; {
			i := strings.LastIndexByte(name, '/')
			name = name[:max(i, 0)]
			parents[[2]string{o.Package, name}] = true
			if o.Action == "fail" {
				guilty[[2]string{o.Package, name}] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(o Outcome) bool {
		k := [2]string{o.Package, o.Test}
		if o.Action == "fail" {
			return guilty[k]
		}
		return o.Test == "" || parents[k]
	})
}

// count sums up outcomes.
type count struct{ passed, failed, skipped int }

func (c count) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

func (r testRun) count() count {
	var c count
	for _, o := range r.Outcomes {
		switch o.Action {
		case "pass":
			c.passed++
		case "fail":
			c.failed++
		case "skip":
			c.skipped++
		}
	}
	if r.Err != nil {
		c.failed++
	}
	if len(r.Left) > 0 {
		c.failed++
	}
	return c
}

func (c count) plus(d count) count {
	return count{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped}
}
