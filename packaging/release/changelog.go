package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// changelog is a file in the form of Keep a Changelog, newest entry first.
type changelog struct {
	entries []entry
}

// entry is what one version brought.
type entry struct {
	version string // empty for what is not released
	date    time.Time
	groups  []group
}

// group are changes of one kind.
type group struct {
	kind    string
	changes []string
}

// kinds are those of Keep a Changelog.
var kinds = map[string]bool{"Added": true, "Changed": true, "Deprecated": true, "Removed": true, "Fixed": true, "Security": true}

func readChangelog(file string) (*changelog, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the changelog: %w", err)
	}
	log, err := parseChangelog(string(b))
	if err != nil {
		return nil, fmt.Errorf("cannot read the changelog %s: %w", file, err)
	}
	return log, nil
}

// parseChangelog is strict: what it does not understand would be missing in
// the packages.
func parseChangelog(text string) (*changelog, error) {
	log := &changelog{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, " \n")
		var err error
		switch rest, heading := strings.CutPrefix(line, "## "); {
		case heading:
			err = log.begin(rest)
		case len(log.entries) == 0 || line == "" || isReference(line):
		default:
			err = log.entries[len(log.entries)-1].add(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return log, nil
}

// isReference is true for a link's definition: "[0.1.0]: https://…".
func isReference(line string) bool {
	return strings.HasPrefix(line, "[") && strings.Contains(line, "]: ")
}

// begin starts an entry from its heading: "[Unreleased]" or "[0.1.0] - 2026-01-31".
func (l *changelog) begin(heading string) error {
	name, date, dated := strings.Cut(heading, " - ")
	inner, ok := strings.CutPrefix(name, "[")
	inner, ok2 := strings.CutSuffix(inner, "]")
	if !ok || !ok2 {
		return fmt.Errorf("%q is not [Unreleased] or [VERSION] - DATE", heading)
	}
	if inner == "Unreleased" && !dated {
		if len(l.entries) > 0 {
			return fmt.Errorf("[Unreleased] is not the first entry")
		}
		l.entries = append(l.entries, entry{})
		return nil
	}
	at, err := time.Parse(time.DateOnly, date)
	if err != nil || !isVersion(inner) {
		return fmt.Errorf("%q is not [Unreleased] or [VERSION] - DATE", heading)
	}
	for _, e := range l.entries {
		if e.version == inner {
			return fmt.Errorf("version %s has two entries", inner)
		}
	}
	l.entries = append(l.entries, entry{version: inner, date: at})
	return nil
}

func isVersion(s string) bool {
	parts := strings.Split(s, ".")
	for _, p := range parts {
		if p == "" || strings.Trim(p, "0123456789") != "" {
			return false
		}
	}
	return len(parts) == 3
}

// add takes a line of an entry.
func (e *entry) add(line string) error {
	if kind, ok := strings.CutPrefix(line, "### "); ok {
		if !kinds[kind] {
			return fmt.Errorf("%q is no kind of change", kind)
		}
		e.groups = append(e.groups, group{kind: kind})
		return nil
	}
	if len(e.groups) == 0 {
		return fmt.Errorf("%q stands below no kind of change", line)
	}
	g := &e.groups[len(e.groups)-1]
	if change, ok := strings.CutPrefix(line, "- "); ok {
		g.changes = append(g.changes, change)
		return nil
	}
	more, ok := strings.CutPrefix(line, "  ")
	if !ok || len(g.changes) == 0 {
		return fmt.Errorf("%q is neither a change nor the rest of one", line)
	}
	g.changes[len(g.changes)-1] += " " + strings.TrimSpace(more)
	return nil
}

// check fails unless the version of a tag has an entry that says something,
// and nothing is left above it as not released.
func (l *changelog) check(tag string) error {
	version, ok := strings.CutPrefix(tag, "v")
	if !ok || !isVersion(version) {
		return fmt.Errorf("cannot release %q: a tag is like v1.2.3", tag)
	}
	for _, e := range l.entries {
		switch {
		case e.version == "" && len(e.groups) > 0:
			return fmt.Errorf("cannot release %s: the changelog has changes under [Unreleased]", tag)
		case e.version == "":
		case e.version != version:
			return fmt.Errorf("cannot release %s: the newest entry of the changelog is %s", tag, e.version)
		case len(e.groups) == 0:
			return fmt.Errorf("cannot release %s: its entry in the changelog is empty", tag)
		default:
			return nil
		}
	}
	return fmt.Errorf("cannot release %s: the changelog has no entry for it", tag)
}

// version is that of a tag, or one between the newest entry and the next.
func (l *changelog) version(tag, commit string, at time.Time) (string, error) {
	if tag != "" {
		return strings.TrimPrefix(tag, "v"), l.check(tag)
	}
	base := "0.0.0~" // lower than every release
	for _, e := range l.entries {
		if e.version != "" {
			base = e.version + "+"
			break
		}
	}
	v := base + "git" + at.Format("20060102")
	if commit != "" {
		v += "." + commit[:min(8, len(commit))]
	}
	return v, nil
}
