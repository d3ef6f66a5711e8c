package main

import (
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
		return reportSink{}, &usageError{`cannot use --report "-": standard output is the job's`, "name a file (./- is one of that name), or an open descriptor, such as fd:2"}
	}
	if fd, ok := strings.CutPrefix(target, "fd:"); ok {
		n, err := strconv.ParseUint(fd, 10, 16)
		if err != nil {
			return reportSink{}, usage("cannot use --report %s: a descriptor's number is expected after fd:", quote(target))
		}
		// A copy, to be closed with the report: the number may be standard error's.
		own, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return reportSink{}, usage("cannot use --report %s: the descriptor is not open", quote(target))
		}
		if n > 2 {
			unix.CloseOnExec(int(n)) // the job has no use for it
		}
		return reportSink{os.NewFile(uintptr(own), target)}, nil
	}
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return reportSink{}, usage("cannot use --report: %v", err)
	}
	return reportSink{f}, nil
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
