package e2e

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cutter is a proxy for a message bus that carries bytes and descriptors, and
// cuts the connection at the first request to start a unit.
type cutter struct {
	t        *testing.T
	real     string
	listener *net.UnixListener
	// forward says whether the request gets through before the cut.
	forward bool
	// ripe is awaited between the request and the cut.
	ripe func()

	mu   sync.Mutex
	cuts int
}

func startCutter(t *testing.T, forward bool, ripe func()) (c *cutter, address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c = &cutter{t: t, real: "/run/user/1000/bus", listener: l, forward: forward, ripe: ripe}
	go c.serve()
	return c, "unix:path=" + path
}

func (c *cutter) serve() {
	for {
		client, err := c.listener.AcceptUnix()
		if err != nil {
			return
		}
		bus, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: c.real, Net: "unix"})
		if err != nil {
			client.Close()
			continue
		}
		both := func() {
			client.Close()
			bus.Close()
		}
		// gate is closed to the bus's answers once the request was seen.
		gate := make(chan struct{})
		go func() {
			defer both()
			carry(client, bus, func([]byte) fate {
				select {
				case <-gate:
					return dropped
				default:
					return carried
				}
			})
		}()
		go func() {
			defer both()
			var seen []byte
			cutting := false
			carry(bus, client, func(b []byte) fate {
				seen = append(seen, b...)
				if !cutting && bytes.Contains(seen, []byte("StartTransientUnit")) && c.take() {
					cutting = true
					close(gate)
					if !c.forward {
						return ended
					}
					go func() {
						// The rest of the request may come in further pieces.
						time.Sleep(100 * time.Millisecond)
						c.ripe()
						both()
					}()
				}
				seen = seen[max(0, len(seen)-64):]
				return carried
			})
		}()
	}
}

// take is true the first time.
func (c *cutter) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts++
	return c.cuts == 1
}

// count is how many starts were seen.
func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// fate is what becomes of bytes.
type fate int

const (
	carried fate = iota
	dropped
	ended // and the connection with them
)

// carry copies bytes and descriptors until an end.
func carry(to, from *net.UnixConn, judge func([]byte) fate) {
	buf, oob := make([]byte, 64<<10), make([]byte, 4096)
	for {
		n, oobn, _, _, err := from.ReadMsgUnix(buf, oob)
		if n == 0 && oobn == 0 || err != nil {
			return
		}
		what := judge(buf[:n])
		if what == carried {
			_, _, err = to.WriteMsgUnix(buf[:n], oob[:oobn], nil)
		}
		closeRights(oob[:oobn])
		if what == ended || err != nil {
			return
		}
	}
}

func closeRights(oob []byte) {
	msgs, _ := syscall.ParseSocketControlMessage(oob)
	for _, m := range msgs {
		fds, _ := syscall.ParseUnixRights(&m)
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// lineCount is how many lines a file has; 0 without a file.
func lineCount(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// Case 46: the reply to the start is lost.
func TestLostReply(t *testing.T) {
	needRig(t)
	if os.Geteuid() == 0 {
		t.Skip("the address of the system's bus is fixed, nothing can be put in between; the user's has the same code paths")
	}
	for _, verb := range []string{"run", "start"} {
		for _, when := range []string{"at once", "once it runs", "once it ended"} {
			t.Run(verb+" "+when, func(t *testing.T) {
				w := newWard(t)
				dir := t.TempDir()
				ran, up, leave := filepath.Join(dir, "ran"), filepath.Join(dir, "up"), filepath.Join(dir, "leave")
				name := "lost-" + verb
				ripe := func() {}
				switch when {
				case "once it runs":
					ripe = func() { eventually(func() bool { return lineCount(t, ran) > 0 }) }
				case "once it ended":
					touch(t, leave)
					ripe = func() {
						eventually(func() bool {
							out := loadedUnits(name + ".service")
							return lineCount(t, ran) > 0 && !strings.Contains(out, "running")
						})
					}
				}
				c, address := startCutter(t, true, ripe)
				w.env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS="+address)
				f := w.begin(w.cmd(verb, "-u", name, "--", "sh", "-c", "echo x >>"+ran+"; "+until(up, leave, 9)))
				t.Cleanup(func() {
					if c.count() != 1 {
						t.Errorf("%d starts were sent", c.count())
					}
				})
				if when != "once it ended" {
					if !eventually(func() bool { return lineCount(t, ran) > 0 && isThere(up) }) {
						t.Fatalf("the job does not go on; it ran %d times; %s said %q", lineCount(t, ran), verb, f.said())
					}
					time.Sleep(200 * time.Millisecond) // a second start would show
					if verb == "run" && f.over() {
						t.Fatalf("run ended with %d while the job goes on: %s", f.status(), f.said())
					}
				}
				touch(t, leave)
				code := f.status()
				if n := lineCount(t, ran); n != 1 {
					t.Errorf("the job ran %d times", n)
				}
				switch {
				case verb == "run" && code == 9:
				case verb == "start" && code == 0:
					w.want(9, "wait", "--timeout", "15s", name)
				case when == "once it ended" && (code == 123 || code == 125 && strings.Contains(f.said(), "outcome is unknown")):
					// Nobody watched it, and that is said. Nothing is made up later.
					a := w.do("--json", "verify", name)
					r := parseReport(t, a.out)
					if confirmed := r.get("confirmed") == "true"; confirmed != (a.code == 0) || confirmed && r.get("exit.code") != "9" {
						t.Errorf("want the truth of %s", a)
					}
				default:
					t.Errorf("status %d: %s", code, f.said())
				}
				if when != "once it ended" {
					w.report("status", name).has("confirmed=true", "exit.code=9")
				}
			})
		}
	}
}

// The request itself is lost: nothing runs, and that is said.
func TestLostRequest(t *testing.T) {
	needRig(t)
	if os.Geteuid() == 0 {
		t.Skip("the address of the system's bus is fixed, nothing can be put in between; the user's has the same code paths")
	}
	for _, verb := range []string{"run", "start"} {
		t.Run(verb, func(t *testing.T) {
			w := newWard(t)
			ran := filepath.Join(t.TempDir(), "ran")
			c, address := startCutter(t, false, nil)
			w.env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS="+address)
			a := w.want(125, verb, "-u", "lost-request-"+verb, "--", "touch", ran)
			if c.count() != 1 {
				t.Errorf("%d starts were sent", c.count())
			}
			if _, err := os.Stat(ran); err == nil {
				t.Errorf("it ran: %s", a)
			}
			if left := ""; !eventually(func() bool { left = loadedUnits("lost-request-*", "unitward-guard-*"); return left == "" }) {
				t.Errorf("units are left: %s", left)
			}
			if files := runtimeFiles(); len(files) > 0 {
				t.Errorf("files are left: %q", files)
			}
		})
	}
}
