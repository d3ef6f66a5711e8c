package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/terminal"
)

// Exit statuses. A job's own code passes through unchanged, so these numbers
// never stand for a reason: the report has it.
const (
	exitOK = 0
	// exitUnconfirmed: the job ended, or a verdict was asked for, and the
	// proof is missing; or a job was started and that could not be told.
	exitUnconfirmed = 123
	// exitTimeout: --timeout ended the job, or the wait.
	exitTimeout = 124
	// exitError: unitward could not do what was asked; nothing ran.
	exitError = 125
	// 126 and 127, a command that cannot be executed or was not found, come
	// with the unit.StartError.

	// exitSignal plus n: signal n ended the job.
	exitSignal = 128
)

// streams are the program's own.
type streams struct {
	In, Out, Err *os.File
}

// hungUp is true once the terminal that one of them is was hung up.
func (s streams) hungUp() bool {
	return terminal.HungUp(s.In) || terminal.HungUp(s.Out) || terminal.HungUp(s.Err)
}

// usageError is a mistake in what was typed.
type usageError struct {
	problem string
	hint    string
}

func (e *usageError) Error() string { return e.problem }

func (e *usageError) Hint() []string {
	if e.hint == "" {
		return nil
	}
	return []string{e.hint}
}

func (e *usageError) Is(target error) bool { return target == unit.ErrUsage }

func usage(format string, args ...any) *usageError {
	return &usageError{problem: fmt.Sprintf(format, args...)}
}

// statusError carries an exit status out of a verb that has said everything.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// fail prints an error and returns the exit status for it.
func fail(err error, asJSON bool, s streams) int {
	var status *statusError
	if errors.As(err, &status) {
		return status.status
	}
	var aborted *abortedError
	if errors.As(err, &aborted) {
		return exitSignal + aborted.signal
	}
	var file *fs.PathError
	if errors.As(err, &file) && file.Path == os.Stdout.Name() {
		err = fmt.Errorf("cannot write to standard output: %w", file.Err)
	}
	printError(s.Err, err)
	o := objectOf(err)
	if asJSON {
		_ = printJSON(s.Out, o)
	}
	return o.Error.Status
}

// objectOf is an error as JSON has it, with the exit status that it stands
// for.
func objectOf(err error) errorObject {
	code := exitError
	var start *unit.StartError
	if errors.As(err, &start) {
		code = start.Status
	}
	var unknown *unit.UnknownOutcomeError
	var lost *unit.RecordLostError
	if errors.As(err, &unknown) || errors.As(err, &lost) {
		code = exitUnconfirmed // 125 would say that nothing ran
	}
	return errorObject{errorBody{Message: err.Error(), Hints: hints(err), Status: code}}
}

type errorObject struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Message string   `json:"message"`
	Hints   []string `json:"hints"`
	Status  int      `json:"status"`
}

func printError(w io.Writer, err error) {
	printLines(w, err.Error(), hints(err))
}

// printLines shows an error and the ways out, a line each.
func printLines(w io.Writer, message string, hints []string) {
	fmt.Fprintf(w, "unitward: %s\n", oneLine(message))
	for _, h := range hints {
		fmt.Fprintf(w, "hint: %s\n", oneLine(h))
	}
}

// oneLine shows control characters, which a path can have, as Go writes them: one
// line stays one, and a terminal obeys nobody.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hints(err error) []string {
	var h interface{ Hint() []string }
	out := []string{} // never null in JSON
	if errors.As(err, &h) {
		out = append(out, h.Hint()...)
	}
	if len(out) == 0 && errors.Is(err, syscall.EMFILE) {
		out = append(out, unit.HintDescriptors)
	}
	return out
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// statusOf is the exit status that a report stands for. kept says that what
// is left in the unit was to be kept.
func statusOf(rep unit.Report, kept bool) int {
	switch {
	case rep.Reason != nil && *rep.Reason == unit.ReasonTimeout && rep.Confirmed:
		return exitTimeout
	case !rep.Confirmed && (!kept || !rep.Exit.Known):
		return exitUnconfirmed
	case rep.Exit.Signal != nil:
		return exitSignal + signalNumber(*rep.Exit.Signal)
	case rep.Exit.Code != nil:
		return *rep.Exit.Code
	}
	return exitUnconfirmed
}
