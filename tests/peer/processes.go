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
	own := namespace("/proc/self")
	for _, dir := range processes() {
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
		if namespace(dir) == own {
			n++
		}
	}
	return n
}

// Programs are the numbers of the processes that execute this test program, as
// servers, keepers and whatever else of unitward there is: its own user's.
func Programs() (pids []string) {
	own, user := namespace("/proc/self"), strconv.Itoa(os.Geteuid())
	self, _ := os.Readlink("/proc/self/exe")
	for _, dir := range processes() {
		exe, err := os.Readlink(dir + "/exe")
		if err != nil || exe != self || namespace(dir) != own {
			continue
		}
		b, _ := os.ReadFile(dir + "/status")
		if bytes.Contains(b, []byte("\nUid:\t"+user+"\t")) {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}

func processes() []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	return dirs
}

// namespace is the pid namespace of a process; empty when it is not known.
func namespace(dir string) string {
	ns, _ := os.Readlink(dir + "/ns/pid")
	return ns
}
