package keeper

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process of another user refuses, is reported, and does not keep the
// reaper busy.
func TestReaperRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("refused: only root can make a program that becomes root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "unitward-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("refused: %s does not honour set-user-ID", dir)
	}
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"keeper": 0o755, "root": 0o755 | os.ModeSetuid} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, killReaper := range []bool{false, true} {
		t.Run(fmt.Sprint("lost ", killReaper), func(t *testing.T) {
			cmd := self("keep", "")
			cmd.Path, cmd.Dir = filepath.Join(dir, "keeper"), "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
			k := keepIn(t, cmd, childVariable+"=root= "+dir+"/root & wait", "HANGUP=stay").ready(t)
			var root int
			if _, err := fmt.Fscanln(k.out, &root); err != nil {
				t.Fatal(err)
			}
			if killReaper {
				unix.Kill(k.reaper, unix.SIGKILL)
			}
			io.WriteString(k.in, "\n")
			k.says(t, fmt.Sprint([]int{root}))
			if unix.Kill(root, 0) != nil {
				t.Error("it is gone")
			}
			unix.Kill(root, unix.SIGKILL)
			k.cmd.Wait()
			nothingLeft(t)
		})
	}
}

// becomeRoot says its number, in a program with the set-user-ID bit, and
// stays.
func becomeRoot() {
	if err := unix.Setresuid(0, 0, 0); err != nil {
		panic(err)
	}
	fmt.Println(os.Getpid())
	time.Sleep(time.Hour)
}
