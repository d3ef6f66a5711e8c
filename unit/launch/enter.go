package launch

import (
	"os"

	"github.com/unitward/unitward/unit/keeper"
)

// Enter carries out what units and launchers execute of their own program
// (Config.Self), which has to call it before it does anything else. args is its
// argument vector. entered is false for every other call of the program; else it
// is to exit with status, after it has said err, which can be nil, on standard
// error.
func Enter(args []string) (status int, entered bool, err error) {
	if len(args) != 3 {
		return 0, false, nil
	}
	switch verb, arg := args[1], args[2]; verb {
	case BecomeVerb:
		return keeper.Become(arg), true, nil
	case tendVerb:
		return tend(arg, os.Getenv), true, nil
	case keepVerb:
		keeper.ReadCaller()
		self, err := os.Executable()
		if err == nil {
			err = runKeeper(arg, self, os.Geteuid())
		}
		if err != nil {
			return 1, true, nil // it was told to the one who could say it
		}
		return 0, true, nil
	case RecordVerb:
		keeper.ReadCaller() // the mask it is started with is the job's
		if err := record(arg); err != nil {
			return 1, true, err
		}
		return 0, true, nil
	}
	return 0, false, nil
}
