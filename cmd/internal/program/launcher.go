package program

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/store"
)

// Launcher opens a state directory; empty is that of this user. The caller
// closes it. The errors are *Error, *store.DirError, and that of a program that
// does not find itself.
func Launcher(stateDir string) (*launch.Launcher, error) {
	uid := os.Geteuid()
	dir := stateDir
	if dir == "" {
		dir = store.DefaultDir(os.Getenv, uid)
	}
	if dir == "" {
		dir = store.DefaultDir(home(uid), uid)
	}
	if dir == "" {
		return nil, &Error{"cannot find a state directory: neither HOME nor XDG_STATE_HOME is set, and the user has no home directory", "name one with --state-dir or UNITWARD_STATE_DIR"}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, &store.DirError{Dir: dir, Err: err}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return launch.New(launch.Config{StateDir: dir, Getenv: os.Getenv, UID: uid, Self: self})
}

// home is the environment of who has none: a shell does without one too.
func home(uid int) func(name string) string {
	return func(name string) string {
		if name != "HOME" {
			return ""
		}
		who, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return ""
		}
		return who.HomeDir
	}
}
