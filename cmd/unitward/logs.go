package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/launch"
)

// logsOptions are the options of logs.
type logsOptions struct {
	follow     bool
	stream     string
	tail       int
	cursor     string
	showCursor bool
}

// everything is the value of --tail that was not given.
const everything = -1

func (a *app) logsCommand() *cobra.Command {
	o := &logsOptions{}
	var tail uint32
	cmd := &cobra.Command{
		Use:   "logs [OPTIONS] NAME",
		Short: "Print the captured output of a job",
		Long: "logs prints what a job wrote: its standard output to standard output, then its\n" +
			"standard error to standard error. What was dropped, because there was more than\n" +
			"--output-max, is said where it is missing, and so is that who kept the output was\n" +
			"killed, at its end. A cursor names a place; with --cursor a later logs goes on\n" +
			"from there.",
		Args:              oneName,
		ValidArgsFunction: a.completeNames,
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what comes until the job is settled")
	f.StringVar(&o.stream, "stream", "", "print one of `stdout|stderr` (default: both)")
	f.Uint32Var(&tail, "tail", 0, "print the newest `N` lines of each stream")
	f.StringVar(&o.cursor, "cursor", "", "print what comes after `CURSOR`")
	f.BoolVar(&o.showCursor, "show-cursor", false, "print the cursor of the end, on standard error")
	cmd.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions([]string{"stdout", "stderr"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.tail = everything
		if cmd.Flags().Changed("tail") {
			o.tail = int(tail)
		}
		return a.logs(args[0], o)
	}
	return cmd
}

func (a *app) logs(arg string, o *logsOptions) error {
	chosen := []capture.Stream{capture.Stdout, capture.Stderr}
	switch o.stream {
	case "":
	case string(capture.Stdout), string(capture.Stderr):
		chosen = []capture.Stream{capture.Stream(o.stream)}
	default:
		return usage("cannot use --stream %s: stdout or stderr is expected", quote(o.stream))
	}
	var from capture.Cursor
	if o.cursor != "" {
		var err error
		if from, err = capture.ParseCursor(o.cursor); err != nil {
			return &usageError{err.Error(), "take it from the end of an earlier logs, with --show-cursor or --json"}
		}
	}
	ctx := context.Background()
	name, err := jobName(arg)
	if err != nil {
		return err
	}
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	j, err := l.Open(ctx, name)
	if err != nil {
		return err
	}
	defer j.Close()
	v, err := a.openLog(j, chosen, from, o.tail)
	if err != nil {
		return err
	}
	defer v.close()
	status := exitOK
	if o.follow {
		status, err = v.follow(j)
	} else {
		err = v.past()
	}
	if err == nil {
		err = v.finish(j, o.showCursor)
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil // nobody reads on: as with any other printer
	case err != nil:
		return err
	case status != exitOK:
		return &statusError{status}
	}
	return nil
}

// openLog opens the chosen streams at their places.
func (a *app) openLog(j *launch.Job, chosen []capture.Stream, from capture.Cursor, tail int) (v *logView, err error) {
	v = &logView{a: a, cursor: from, buf: make([]byte, 64<<10)}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if v.dir, err = j.OpenDir(); err != nil {
		return v, err
	}
	captured := false
	for _, name := range []capture.Stream{capture.Stdout, capture.Stderr} {
		s := &logStream{name: name, off: from.Offset(name)}
		s.r, err = capture.Open(v.dir, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return v, err
		}
		captured = captured || err == nil
		if len(chosen) == 1 && chosen[0] != name {
			if s.r != nil {
				s.r.Close()
			}
			continue
		}
		v.streams = append(v.streams, s)
	}
	if !captured {
		return v, &uncapturedError{j.Record()}
	}
	for _, s := range v.streams {
		if err := s.seek(tail); err != nil {
			return v, err
		}
	}
	return v, nil
}

// uncapturedError says that a job's output is not where logs looks.
type uncapturedError struct {
	rec *unit.Record
}

func (e *uncapturedError) Error() string {
	return fmt.Sprintf("cannot print the output of job %s: it was not captured", e.rec.Name)
}

// Hint proposes the way out.
func (e *uncapturedError) Hint() []string {
	return []string{"what went to the journal is shown by: " + journalOf(e.rec)}
}
