package program

import (
	"os"
	"os/user"
	"strconv"
	"testing"
)

// Who has no HOME has the home directory of the user database.
func TestHome(t *testing.T) {
	uid := os.Geteuid()
	who, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		t.Fatal(err)
	}
	if got := home(uid)("HOME"); got != who.HomeDir {
		t.Errorf("HOME is %q, want %q", got, who.HomeDir)
	}
	if got := home(uid)("XDG_STATE_HOME"); got != "" {
		t.Errorf("XDG_STATE_HOME is %q", got)
	}
	if got := home(1<<30 + 7)("HOME"); got != "" {
		t.Errorf("of a user that is not known: %q", got)
	}
}
