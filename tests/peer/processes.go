package peer

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Processes counts the processes with these arguments, of which the last is a
// pattern, that are jobs of what this test program started, or of theirs: others
// may run the same tests on the machine.
func Processes(argv ...string) (n int) {
	mark := []byte("\x00" + markVariable + "=" + strconv.Itoa(os.Getpid()) + "\x00")
	here, _ := os.Readlink("/proc/self/ns/pid")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		b, _ := os.ReadFile(dir + "/cmdline")
		got := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
		last := len(argv) - 1
		if len(got) != len(argv) || !slices.Equal(got[:last], argv[:last]) {
			continue
		}
		if ok, _ := filepath.Match(argv[last], got[last]); !ok {
			continue
		}
		env, err := os.ReadFile(dir + "/environ")
		if err != nil || !bytes.Contains(append([]byte{0}, env...), mark) {
			continue
		}
		if there, err := os.Readlink(dir + "/ns/pid"); err == nil && there == here {
			n++
		}
	}
	return n
}
