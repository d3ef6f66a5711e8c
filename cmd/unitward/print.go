package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// result is how a job ended, in a word or three.
func result(r unit.Report) string {
	if r.Reason == nil {
		return "-"
	}
	switch {
	case r.Exit.Signal != nil:
		return fmt.Sprintf("%s (SIG%s)", *r.Reason, *r.Exit.Signal)
	case r.Exit.Code != nil:
		return fmt.Sprintf("%s (%d)", *r.Reason, *r.Exit.Code)
	}
	return string(*r.Reason)
}

// sentenceOf is the state of a job that is not settled.
func sentenceOf(r unit.Report) string {
	if r.State == unit.StateEnded {
		return fmt.Sprintf("its main process ended (%s), %d others are left", result(r), len(r.Tree.Members))
	}
	return "it is " + stateOf(r)
}

func memberList(ms []verify.Member) string {
	var b strings.Builder
	for i, m := range ms {
		if i == 8 {
			fmt.Fprintf(&b, " and %d more", len(ms)-i)
			break
		}
		fmt.Fprintf(&b, " %d (%s)", m.PID, commandLine([]string{m.Command}, 256))
	}
	return b.String()
}

// leftLines names the processes that were seen to leave the unit, a line each.
func leftLines(before string, r unit.Report) string {
	var b strings.Builder
	for i, m := range r.LeftUnit {
		if i == 8 {
			fmt.Fprintf(&b, "%s%d more\n", before, len(r.LeftUnit)-i)
			break
		}
		fmt.Fprintf(&b, "%s%d (%s) is in %s\n", before, m.PID, commandLine([]string{m.Command}, 60), commandLine([]string{m.Cgroup}, 256))
	}
	return b.String()
}

func printMissing(w io.Writer, r unit.Report) {
	for _, m := range r.Missing {
		fmt.Fprintf(w, "  missing %s: %s said %s\n", m.What, m.Looked, m.Said)
	}
	if r.Remedy != nil {
		fmt.Fprintf(w, "hint: %s\n", *r.Remedy)
	}
}

// commandLine is what a job chose to be called, cut to a number of characters, and
// without any that does something to a terminal, or to the order of what is shown.
func commandLine(command []string, limit int) string {
	line := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return '?'
		}
		return r
	}, strings.Join(command, " "))
	if rs := []rune(line); len(rs) > limit {
		return string(rs[:limit-1]) + "…"
	}
	return line
}

// printReport prints a report. foreign says whose record it is, when it is not
// ours; more are where more is said; separate puts a line before it.
func printReport(w io.Writer, r unit.Report, foreign string, more []place, separate bool) error {
	var b strings.Builder
	if separate {
		b.WriteByte('\n')
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%10s  %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "%s - %s\n", r.Name, commandLine(r.Command, 100))
	line("state", "%s", stateLine(r))
	if foreign != "" {
		line("foreign", "%s", foreign)
	}
	switch r.Isolation {
	case verify.IsolationService, verify.IsolationScope:
		where := ""
		if r.Remote != nil {
			where = " of " + r.Remote.String()
		}
		line("unit", "%s (%s manager%s)", r.Unit, r.Manager, where)
	case verify.IsolationCgroup:
		line("unit", "cgroup %s", r.Cgroup)
	case verify.IsolationGroup:
		line("unit", "process group %d", r.PID)
	}
	for _, refused := range r.Refused {
		line("not", "%s", refused)
	}
	if r.PID != 0 {
		line("main", "%d", r.PID)
	}
	if r.StartedAt != nil {
		line("started", "%s", r.StartedAt.Local().Format(time.RFC3339))
	}
	if r.EndedAt != nil {
		after := "" // what never started has no duration
		if r.DurationMS != nil {
			after = ", after " + (time.Duration(*r.DurationMS) * time.Millisecond).String()
		}
		line("ended", "%s%s", r.EndedAt.Local().Format(time.RFC3339), after)
	}
	if r.Exit.Known {
		line("exit", "%s, by %s", result(r), r.Exit.Source)
	}
	if r.Tree.Empty {
		line("tree", "empty, by %s", r.Tree.Source)
	} else {
		line("tree", "%s%s", r.Tree.Source, memberList(r.Tree.Members))
	}
	if s := r.Streams; s.State == "lost" && s.StdoutBytes != nil && s.StderrBytes != nil {
		line("output", "lost after %d bytes of stdout and %d of stderr: who kept it was killed", *s.StdoutBytes, *s.StderrBytes)
	}
	b.WriteString(leftLines(fmt.Sprintf("%10s  ", "left"), r))
	for _, l := range r.Limits {
		held := "not applied"
		if l.Applied {
			held = "applied"
		}
		line("limit", "%s=%s: %s, %s", l.Name, l.Asked, held, l.Found)
	}
	if r.Stop.By != nil {
		line("stop", "by %s", *r.Stop.By)
	}
	for _, s := range r.Stop.Steps {
		line("step", "%s at %s", s.Action, s.At.Local().Format(time.TimeOnly))
	}
	if r.Exit.Known || r.State == unit.StateUnknown {
		for _, m := range r.Missing {
			line("missing", "%s: %s said %s", m.What, m.Looked, m.Said)
		}
	}
	for _, p := range more {
		line(p.what, "%s", p.command)
	}
	if r.Remedy != nil {
		line("next", "%s", *r.Remedy)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// stateOf is the state in a word.
func stateOf(r unit.Report) string {
	if r.Paused {
		return "paused"
	}
	return string(r.State)
}

func stateLine(r unit.Report) string {
	if r.Reason == nil {
		return stateOf(r)
	}
	return fmt.Sprintf("%s, %s", r.State, result(r))
}
