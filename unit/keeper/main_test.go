package keeper

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper/nofile"
)

const childVariable = "UNITWARD_KEEPER_TEST"

// TestMain is also the program that becomes a command, the command it
// becomes, and others of which a test needs a process.
func TestMain(m *testing.M) {
	what, args, isChild := strings.Cut(os.Getenv(childVariable), "=")
	if !isChild {
		os.Exit(m.Run())
	}
	switch what {
	case "become":
		os.Exit(Become(args))
	case "tell":
		tell(args)
	case "mute": // opens the FIFO and dies without a word
		if _, err := unix.Open(args, unix.O_WRONLY|unix.O_NONBLOCK, 0); err != nil {
			os.Exit(1)
		}
		unix.Kill(os.Getpid(), unix.SIGKILL)
	case "keep":
		keep()
	case "root":
		becomeRoot()
	case "crosswise":
		crosswise()
	case "nofile":
		soft, hard, ok := nofile.Original()
		c := ReadCaller()
		fmt.Println(soft, hard, ok, c.Rlimits[rlimitNofile].Soft, c.Rlimits[rlimitNofile].Hard, c.Umask)
	}
}

// self runs this test binary as another process.
func self(what, args string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+what+"="+args)
	return cmd
}

// told is what a process finds itself to be.
type told struct {
	Argv, Env [][]byte
	Dir       []byte
	Umask     uint32
	Rlimits   []unit.Rlimit
	FDs       []string
}

// tell writes what this process is to a file, byte for byte.
func tell(file string) {
	var w told
	read := func(name string) [][]byte {
		b, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			panic(err)
		}
		var out [][]byte
		for s := range strings.SplitSeq(strings.TrimSuffix(string(b), "\x00"), "\x00") {
			out = append(out, []byte(s))
		}
		return out
	}
	w.Argv, w.Env = read("cmdline"), read("environ")
	dir, err := os.Readlink("/proc/self/cwd")
	if err != nil {
		panic(err)
	}
	w.Dir = []byte(dir)
	w.Umask = uint32(syscall.Umask(0))
	c := ReadCaller()
	w.Rlimits = c.Rlimits[:]
	// Descriptors 3 and up that the exec passed on. What this program opens
	// itself is closed on exec.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		var n int
		fmt.Sscan(e.Name(), &n)
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); n > 2 && err == nil && flags&unix.FD_CLOEXEC == 0 {
			target, _ := os.Readlink("/proc/self/fd/" + e.Name())
			w.FDs = append(w.FDs, e.Name()+" "+target)
		}
	}
	b, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		panic(err)
	}
}
