// release turns what the repository says of a release into what packages need:
//
//	release version TAG COMMIT SECONDS       the version; TAG may be empty
//	release check TAG                        fail unless the changelog has TAG's entry
//	release changelog NAME VERSION SECONDS   the changelog of package NAME, as Debian has it
//	release changelog-rpm VERSION SECONDS    the same, as nfpm reads it for rpm
//	release config FILE KIND ARCH VERSION DIR
//	                                         what nfpm reads for a package
//	release sbom BINARY VERSION SECONDS      the modules of BINARY, as CycloneDX
//
// It reads CHANGELOG.md in the working directory and writes to standard output.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("cannot understand the arguments: see the top of packaging/release/main.go")

// forms are the verbs with the number of their arguments. The last argument of
// those that are dated is the date.
var forms = map[string]struct {
	arguments int
	dated     bool
	log       bool // reads the changelog
	do        func(out io.Writer, args []string, log *changelog, at time.Time) error
}{
	"version": {3, true, true, func(out io.Writer, args []string, log *changelog, at time.Time) error {
		version, err := log.version(args[0], args[1], at)
		if err == nil {
			_, err = fmt.Fprintln(out, version)
		}
		return err
	}},
	"check": {1, false, true, func(_ io.Writer, args []string, log *changelog, _ time.Time) error { return log.check(args[0]) }},
	"changelog": {3, true, true, func(out io.Writer, args []string, log *changelog, at time.Time) error {
		return writeDebian(out, log.released(args[1], at), args[0])
	}},
	"changelog-rpm": {2, true, true, func(out io.Writer, args []string, log *changelog, at time.Time) error {
		return writeRPM(out, log.released(args[0], at))
	}},
	"config": {5, false, false, func(out io.Writer, args []string, _ *changelog, _ time.Time) error {
		return writeConfig(out, args[0], args[1], args[2], args[3], args[4])
	}},
	"sbom": {3, true, false, func(out io.Writer, args []string, _ *changelog, at time.Time) error {
		return writeSBOM(out, args[0], args[1], at)
	}},
}

func run(args []string, out io.Writer) (err error) {
	if len(args) == 0 {
		return errUsage
	}
	form, ok := forms[args[0]]
	args = args[1:]
	if !ok || len(args) != form.arguments {
		return errUsage
	}
	var at time.Time
	if form.dated {
		if at, err = seconds(args[len(args)-1]); err != nil {
			return err
		}
	}
	var log *changelog
	if form.log {
		if log, err = readChangelog("CHANGELOG.md"); err != nil {
			return err
		}
	}
	return form.do(out, args, log, at)
}

func seconds(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read the date %q: seconds since 1970 are expected", s)
	}
	return time.Unix(n, 0).UTC(), nil
}
