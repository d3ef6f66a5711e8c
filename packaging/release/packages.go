package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// packager signs the entries of both packages' changelogs.
const packager = "unitward maintainers <unitward@users.noreply.github.com>"

// revision is that of every package; what changes there changes the version.
const revision = "-1"

// released are the entries for packages. What is not released is the entry of
// version, with the date at: a package's newest entry is always its own.
func (l *changelog) released(version string, at time.Time) []entry {
	entries := slices.DeleteFunc(slices.Clone(l.entries), func(e entry) bool { return e.version == "" && len(e.groups) == 0 })
	switch {
	case len(entries) > 0 && entries[0].version == "":
		entries[0].version, entries[0].date = version, at
	case len(entries) == 0 || entries[0].version != version:
		entries = slices.Insert(entries, 0, entry{version, at, []group{{"Changed", []string{"Built from a commit that is not a release."}}}})
	}
	return entries
}

// writeDebian writes a changelog as Debian has it (deb-changelog(5)).
func writeDebian(out io.Writer, entries []entry, name string) error {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s (%s) unstable; urgency=medium\n\n", name, e.version+revision)
		for _, change := range e.lines() {
			b.WriteString("  * " + strings.Join(change, "\n    ") + "\n")
		}
		fmt.Fprintf(&b, "\n -- %s  %s\n", packager, e.date.Format(time.RFC1123Z))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeRPM writes the entries as nfpm reads them.
func writeRPM(out io.Writer, entries []entry) error {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "- semver: %q\n  date: %s\n  packager: %q\n  changes:\n", e.version+revision, e.date.Format(time.RFC3339), packager)
		for _, change := range e.lines() {
			fmt.Fprintf(&b, "    - note: %q\n", strings.Join(change, "\n"))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// lines are the changes, each in lines that leave room for a bullet.
func (e *entry) lines() [][]string {
	const width = 74
	var changes [][]string
	for _, g := range e.groups {
		for _, c := range g.changes {
			var lines []string
			for _, w := range strings.Fields(g.kind + ": " + plain(c)) {
				last := len(lines) - 1
				if last < 0 || len(lines[last])+1+len(w) > width {
					lines = append(lines, w)
				} else {
					lines[last] += " " + w
				}
			}
			changes = append(changes, lines)
		}
	}
	return changes
}

// plain takes the marks of Markdown out of a change.
func plain(s string) string {
	return strings.NewReplacer("`", "", "**", "").Replace(s)
}
