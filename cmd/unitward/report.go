package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// reportSink is where --report goes; its zero value takes nothing.
type reportSink struct{ f *os.File }

// openReport opens the target before anything runs, so that a wrong one is an
// error with nothing to undo.
func openReport(target string) (reportSink, error) {
	switch target {
	case "":
		return reportSink{}, nil
	case "-":
		return reportSink{}, unusable(target, "standard output is the job's (./- is a file of that name)")
	}
	if fd, ok := strings.CutPrefix(target, "fd:"); ok {
		n, err := strconv.ParseUint(fd, 10, 16)
		if err != nil {
			return reportSink{}, unusable(target, "a descriptor's number is expected after fd:")
		}
		// A copy, to be closed with the report: the number may be standard error's.
		own, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return reportSink{}, unusable(target, "the descriptor is not open")
		}
		if n > 2 {
			unix.CloseOnExec(int(n)) // the job has no use for it
		}
		return reportSink{os.NewFile(uintptr(own), target)}, nil
	}
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return reportSink{}, unusable(target, err.Error())
	}
	return reportSink{f}, nil
}

// unusable is a --report that goes nowhere.
func unusable(target, why string) error {
	return &usageError{fmt.Sprintf("cannot use --report %s: %s", quote(target), why), "name a file that can be written, or an open descriptor, such as fd:2"}
}

// Write writes the report as one line of JSON.
func (s reportSink) Write(rep unit.Report) error {
	if s.f == nil {
		return nil
	}
	if err := printJSON(s.f, rep); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return nil
}

// Close releases the target.
func (s reportSink) Close() {
	if s.f != nil {
		s.f.Close()
	}
}
