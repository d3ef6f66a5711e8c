package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/terminal"
)

// watchEvery is the time between two looks of list --watch.
const watchEvery = time.Second

// watchList prints the list until it is interrupted: in place on a terminal,
// else one after the other.
func (a *app) watchList(ctx context.Context, l *launch.Launcher, o listOptions) error {
	before := map[string]sample{}
	for {
		rows, err := a.rows(ctx, l, o)
		if err != nil {
			return err
		}
		if a.json {
			err = printJSON(a.Out, objects(rows))
		} else {
			err = a.redraw(l, rows, before)
		}
		if err != nil {
			return err
		}
		time.Sleep(watchEvery)
	}
}

// sample is what a job had used at a time.
type sample struct {
	at  time.Time
	cpu uint64
}

func (a *app) redraw(l *launch.Launcher, rows []row, before map[string]sample) error {
	width, wide := terminalWidth(a.Out)
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	shown := map[string]bool{}
	fmt.Fprintln(w, "NAME\tSTATE\tAGE\tCPU\tMEMORY\tTASKS\tOUTPUT\tCOMMAND")
	for _, r := range rows {
		if r.bad != nil {
			fmt.Fprintf(w, "%s\tbad record\t\t\t\t\t\t\n", r.bad.Name)
			continue
		}
		shown[string(r.rep.Name)] = true
		load := l.Load(r.rec)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.rep.Name, r.state(), age(*r.rep), share(string(r.rep.Name), load.CPUNanoseconds, before),
			amount(load.MemoryBytes), count(load.Tasks), ago(load.OutputAt), commandLine(r.rep.Command, 48))
	}
	maps.DeleteFunc(before, func(name string, _ sample) bool { return !shown[name] })
	if err := w.Flush(); err != nil {
		return err
	}
	text := b.String()
	if wide {
		text = frame(text, width, os.Getenv("NO_COLOR") == "")
	}
	_, err := fmt.Fprint(a.Out, text)
	return err
}

// frame is a text that replaces the screen, its lines cut to the width. The
// first is the heading.
func frame(text string, width int, colour bool) string {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range strings.SplitAfter(text, "\n") {
		line = strings.TrimSuffix(line, "\n")
		if r := []rune(line); len(r) > width && width > 0 {
			line = string(r[:width])
		}
		if i == 0 && colour {
			line = "\x1b[1m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// share is the part of a CPU that a job used since the last look.
func share(name string, cpu *uint64, before map[string]sample) string {
	if cpu == nil {
		return "-"
	}
	now := sample{time.Now(), *cpu}
	last, ok := before[name]
	before[name] = now
	if !ok || now.cpu < last.cpu || !now.at.After(last.at) {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(now.cpu-last.cpu)/float64(now.at.Sub(last.at)))
}

// amount is a number of bytes for people.
func amount(n *uint64) string {
	if n == nil {
		return "-"
	}
	value, units := float64(*n), "BKMGT"
	for value >= 1024 && len(units) > 1 {
		value, units = value/1024, units[1:]
	}
	if units[0] == 'B' {
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("%.1f%c", value, units[0])
}

func count(n *uint64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func ago(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return max(time.Since(at), 0).Round(time.Second).String() + " ago"
}

// terminalWidth is the number of columns of a terminal; 0 where they are not
// known. ok is false for what is none.
func terminalWidth(f *os.File) (width int, ok bool) {
	if !terminal.Is(f) {
		return 0, false
	}
	size, _ := terminal.SizeOf(f)
	return int(size.Cols), true
}

// elapsedAfter is how long a wait takes before it is worth a line.
const elapsedAfter = time.Second

// showElapsed shows on a terminal for how long something goes on, until done
// is called.
func (a *app) showElapsed(what string) (done func()) {
	if !terminal.Is(a.Err) || a.quiet {
		return func() {}
	}
	began, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(elapsedAfter)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(a.Err, "\r%s, %s\x1b[K", what, time.Since(began).Round(time.Second))
				shown = true
			case <-stop:
				if shown {
					fmt.Fprint(a.Err, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
