package launch

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/store"
)

// outlives is true for a job that can go on where nobody may be to read its exit: that
// is written down by its recorder.
func outlives(s *unit.Spec) bool {
	return s.Lifetime != unit.LifetimeCall || s.DetachAfter > 0 || s.Output == unit.OutputCapture || s.Leftovers == unit.LeftoversKeep
}

// lasting is true for a job that ends with its call and whose unit executes more than
// what comes before its command, in the same environment. What that is in has to be
// there until the unit's end.
func lasting(s *unit.Spec) bool {
	return !outlives(s) && slices.ContainsFunc(s.Properties, func(p string) bool {
		return strings.HasPrefix(p, "ExecStartPost") || strings.HasPrefix(p, "ExecReload") || strings.HasPrefix(p, "ExecStop")
	})
}

// environmentSuffix ends the name of the file with a job's environment.
const environmentSuffix = ".env"

// record is a unit's last command, its recorder, which also removes the environment that
// nobody needs any more: where the call was killed, nobody else does. A handover is
// left to who asks whether it was taken.
func record(jobDir string) error {
	err := store.RecordExit(jobDir, os.Getenv, OwnerGone, ownUnit(), time.Now())
	e, oerr := store.OpenEntry(jobDir)
	if oerr != nil {
		return cmp.Or(err, oerr)
	}
	defer e.Close()
	if rec, rerr := e.Record(); rerr == nil {
		removeFiles(slices.DeleteFunc(rec.Left, func(file string) bool { return !strings.HasSuffix(file, environmentSuffix) }))
	}
	return err
}
