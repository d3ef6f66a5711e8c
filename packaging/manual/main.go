package manual

import (
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// Main writes the manual of a program whose main stands in for its own:
//
//	go run -tags docs ./cmd/NAME PROSE-DIR OUT-DIR SECONDS-SINCE-1970
//
// The command tree is that package's, and the program that people run has no
// verb for it. args are the three arguments.
func Main(root *cobra.Command, args []string) error {
	if len(args) != 3 {
		return errors.New("cannot write the manual: three arguments are expected: prose, directory, date")
	}
	seconds, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return errors.New("cannot write the manual: " + strconv.Quote(args[2]) + " is not a date in seconds")
	}
	return Write(root, os.DirFS(args[0]), args[1], time.Unix(seconds, 0))
}
