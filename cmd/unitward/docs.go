//go:build docs

package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/unitward/unitward/packaging/manual"
)

// This main stands in for the other, and writes the manual and the completions:
//
//	go run -tags docs ./cmd/unitward PROSE-DIR OUT-DIR SECONDS-SINCE-1970
//
// The command tree is this package's own, and the program that people run has
// no verb for it.
func main() {
	if err := writeDocs(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "unitward:", err)
		os.Exit(1)
	}
}

func writeDocs(args []string) error {
	if len(args) != 3 {
		return usage("cannot write the manual: three arguments are expected: prose, directory, date")
	}
	seconds, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return usage("cannot write the manual: %q is not a date in seconds", args[2])
	}
	a := &app{}
	return manual.Write(a.root(nil), os.DirFS(args[0]), args[1], time.Unix(seconds, 0))
}
