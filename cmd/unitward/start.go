package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

func (a *app) startCommand() *cobra.Command {
	o, t, pty := &jobOptions{}, &triggerOptions{}, false
	cmd := &cobra.Command{
		Use:   "start [OPTIONS] [--] COMMAND [ARGUMENT...]",
		Short: "Start a job in the background and print its name",
		Long: "start starts COMMAND as a job and returns once it was executed. The job goes on\n" +
			"without its launcher; wait, status, stop and verify find it by the name that\n" +
			"start prints.\n\n" +
			"The exit status is 0 when the job was started, 123 when it was, or may have been,\n" +
			"and its name or report could not be given (standard error has the name), 125\n" +
			"when nothing could be run, 126 when the command cannot be executed, 127 when it\n" +
			"was not found, and 128+N when signal N came before the job was there.\n\n" +
			"With an option of a timer, path or socket the job is not started now, but each\n" +
			"time that this unit says so, and start prints the unit's name.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case t.given() && pty:
				return usage("cannot use --pty with a job that is started again and again: a terminal is one start's")
			case t.given():
				return a.trigger(cmd, o, t, args)
			}
			return a.start(cmd, o, pty, args)
		},
	}
	o.register(cmd, unit.LifetimeDetached, unit.InputNull, unit.OutputCapture)
	cmd.Flags().BoolVarP(&pty, "pty", "t", false, "give the job a terminal of its own, to which attach leads")
	cmd.Flags().BoolVarP(&pty, "pty-late", "T", false, "the same as --pty")
	registerBackground(cmd.Flags())
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "do not print the name")
	t.register(cmd.Flags())
	return cmd
}

func (a *app) start(cmd *cobra.Command, o *jobOptions, pty bool, args []string) error {
	if told, err := o.told(a.streams); told {
		return err
	}
	s, err := o.spec(cmd, a.caller, args)
	if err != nil {
		return err
	}
	if pty {
		if err := applyHeld(cmd, s, a.streams, o.cleanEnv); err != nil {
			return err
		}
	}
	if !pty && !cmd.Flags().Changed("output") && s.Apart() {
		s.Output = unit.OutputJournal // another user's process cannot write to our files
	}
	if err := o.fits(cmd, s); err != nil {
		return err
	}
	if err := background(cmd, s); err != nil {
		return err
	}
	sink, err := openReport(o.report)
	if err != nil {
		return err
	}
	defer sink.Close()
	b, err := a.begin(s, o, sink, nil)
	if err != nil {
		return err
	}
	defer b.close()
	b.sig.first() // it runs, and a signal is for it no more
	// The job runs, so an error from here on is not that of a start.
	untold := a.tellStarted(b, s, sink)
	if untold != nil {
		fmt.Fprintf(a.Err, "unitward: job %s was started, but: %v\nhint: end it with: unitward stop %s\n", b.job.Name(), untold, verify.Typed(b.job.Name()))
		return &statusError{exitUnconfirmed}
	}
	return nil
}

// background refuses what only a foreground job can have.
func background(cmd *cobra.Command, s *unit.Spec) error {
	switch {
	case s.Lifetime == unit.LifetimeCall:
		return &usageError{"cannot start a job of lifetime call: it would end with this command", "use unitward run, or --lifetime owner"}
	case on(cmd.Flags(), "wait"):
		return &usageError{"cannot use --wait: start does not wait for the end", "use unitward run, or unitward wait after it"}
	case on(cmd.Flags(), "pipe") && (s.Stdin != unit.InputInherit || s.Output != unit.OutputInherit):
		return &usageError{"cannot use --pipe: start leaves the caller's streams alone", "use unitward run, or add --stdin inherit --output inherit"}
	}
	return nil
}

// tellStarted says what is known of a job that was started: its name comes
// before all else.
func (a *app) tellStarted(b *begun, s *unit.Spec, sink reportSink) error {
	if !a.json && !a.quiet {
		if _, err := fmt.Fprintln(a.Out, b.job.Name()); err != nil {
			return fmt.Errorf("cannot print its name: %w", err)
		}
		if s.Name == "" && perhapsClosed(a.Out, a.In, a.Err) {
			if perhapsClosed(a.Err, a.In, a.Out) {
				return errToldNobody
			}
			fmt.Fprintf(a.Err, "unitward: job %s was started; standard output is closed, or nowhere\n", b.job.Name())
		}
	}
	if !a.json && sink.f == nil {
		return nil
	}
	rep, err := b.job.Look(context.Background())
	if !looked(rep) {
		return err
	}
	a.warn(err)
	if a.json {
		if err := printJSON(a.Out, rep); err != nil {
			return fmt.Errorf("cannot print its report: %w", err)
		}
	}
	return sink.Write(rep)
}

// errToldNobody says that a name went nowhere, and not because that was asked
// for.
var errToldNobody = errors.New("cannot print its name: standard output and standard error are closed, or nowhere")

// perhapsClosed is true where this process may have been started without the
// stream: Go's runtime opens /dev/null in the place of one that is closed, for
// reading and writing, each anew (runtime/fds_unix.go). Others do so too, so it
// is no error where the name is told in another way; a shell's >/dev/null is for
// writing alone, and what a program gave to several of its streams they share.
func perhapsClosed(f *os.File, others ...*os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
		return false
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR && !slices.ContainsFunc(others, func(o *os.File) bool { return sameFile(f, o) })
}

// sameFile is true for two descriptors of one open file. Where the kernel does
// not tell (kcmp(2), CONFIG_KCMP), it is false.
func sameFile(f, g *os.File) bool {
	const file = 0 // KCMP_FILE
	self := uintptr(os.Getpid())
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, self, self, file, f.Fd(), g.Fd(), 0)
	return errno == 0 && order == 0
}
