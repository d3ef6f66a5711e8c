package packages

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// completion asks real shells, as an ordinary user, for a verb, an option, a
// value and the name of a job.
func completion(t *testing.T) {
	j := live(t, tester, "paktest-completed")
	for _, shell := range []struct {
		name string
		argv []string
		set  string
	}{
		{"bash", []string{"bash", "--noprofile", "--norc", "-i"}, ". /usr/share/bash-completion/bash_completion"},
		{"zsh", []string{"zsh", "-f", "-i"}, "autoload -Uz compinit; compinit -u -D"},
	} {
		s := startShell(t, shell.argv...)
		s.send(shell.set + "; echo re''ady\n")
		s.await(t, shell.name, "ready")
		for typed, want := range map[string]string{
			"unitward verif": "unitward verify", "unitward run --working-d": "unitward run --working-directory",
			"unitward status paktest-c": "unitward status paktest-completed", "unitward wait --for tr": "unitward wait --for tree",
			// bash takes what follows "=" for a word of its own.
			"unitward run -p MemoryMa": "unitward run -p MemoryMax=", "unitward run -p ProtectSystem=s": "unitward run -p ProtectSystem=strict",
			"unitward kill -s SIGTE": "unitward kill -s SIGTERM",
		} {
			s.send(typed + "\t")
			s.await(t, shell.name, want)
			s.send("\x15") // kill the line
		}
		s.end()
	}
	for typed, want := range map[string]string{
		"unitward verif": "verify\t", "unitward run --working-d": "--working-directory\t",
		"unitward status paktest-c": "paktest-completed", "unitward wait --for tr": "tree",
		"unitward run -p MemoryMa": "MemoryMax=", "unitward run -p ProtectSystem=s": "ProtectSystem=strict", "unitward kill -s SIGTE": "SIGTERM",
	} {
		out := tester.want(t, 0, "fish", "-c", "complete -C'"+typed+"'")
		if !strings.HasPrefix(out, want) {
			t.Errorf("fish completes %q by %q", typed, out)
		}
	}
	j.end(t)
	tester.want(t, 7, "unitward", "wait", j.name)
}

// shell is one on a terminal of its own.
type shell struct {
	tty *os.File
	end func()

	mu   sync.Mutex
	said bytes.Buffer
}

func startShell(t *testing.T, argv ...string) *shell {
	t.Helper()
	tty, far, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	cmd := tester.cmd(argv...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	cmd.Dir = "/home/tester"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	far.Close()
	s := &shell{tty: tty}
	var once sync.Once
	s.end = func() {
		once.Do(func() {
			cmd.Process.Kill()
			_ = cmd.Wait() // killed
			tty.Close()
		})
	}
	t.Cleanup(s.end)
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			s.mu.Lock()
			s.said.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return // the shell is gone
			}
		}
	}()
	return s
}

func (s *shell) send(text string) { _, _ = s.tty.WriteString(text) }

// await waits until the shell has shown the text, and forgets what it showed.
func (s *shell) await(t *testing.T, name, text string) {
	t.Helper()
	found := eventually(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.said.String(), text)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if !found {
		t.Fatalf("%s does not show %q but %q", name, text, s.said.String())
	}
	s.said.Reset()
}

// openTerminal makes a pseudoterminal (pts(4)).
func openTerminal() (near, far *os.File, err error) {
	near, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(near.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 200})
	}
	if err != nil {
		near.Close()
		return nil, nil, err
	}
	return near, far, nil
}
