package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
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

func startCutter(t *testing.T, forward bool, ripe func()) (c *cutter, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "bus")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c = &cutter{t: t, real: "/run/user/1000/bus", listener: l, forward: forward, ripe: ripe}
	if os.Geteuid() == 0 {
		c.real = systemBus
	}
	go c.serve()
	return c, socket
}

// systemBus is where everybody looks for the system's bus, whatever the environment
// says.
const systemBus = "/run/dbus/system_bus_socket"

// by is a ward whose jobs are started by way of a cutter: root has it in the place of
// the system's bus, in a mount namespace of its own.
func (w *ward) by(socket string) *ward {
	way := *w
	if os.Geteuid() == 0 {
		way.before = []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" ` + systemBus + ` && exec "$@"`, socket}
	} else {
		way.env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS=unix:path="+socket)
	}
	return &way
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
func lineCount(t testing.TB, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// Case 46: the reply to the start is lost. The job is found, by its name and its
// nonce, and is not started twice.
func TestLostReply(t *testing.T) {
	needRig(t)
	whens := map[string][]string{
		verify.IsolationService: {"at once", "once it runs", "once it ended"},
		verify.IsolationScope:   {"at once", "once it is there"}, // nothing runs before that is known
	}
	in(t, []string{verify.IsolationService, verify.IsolationScope}, func(t *testing.T, w *ward) {
		for _, verb := range []string{"run", "start"} {
			for _, when := range whens[w.isolation] {
				t.Run(verb+" "+when, func(t *testing.T) { lostReply(t, w.again(t), verb, when) })
			}
		}
	})
}

func lostReply(t *testing.T, w *ward, verb, when string) {
	dir := t.TempDir()
	ran, up, leave := filepath.Join(dir, "ran"), filepath.Join(dir, "up"), filepath.Join(dir, "leave")
	name := "lost-" + verb
	nonces := make(chan string, 1) // as it was recorded when the connection was cut
	loaded := func(state string) bool { return strings.Contains(loadedUnits(name+"."+w.isolation), state) }
	ripe := func() {
		switch when {
		case "once it runs":
			eventually(func() bool { return lineCount(t, ran) > 0 })
		case "once it is there":
			eventually(func() bool { return loaded("running") })
		case "once it ended":
			eventually(func() bool { return lineCount(t, ran) > 0 && !loaded("running") })
		}
		var rec unit.Record
		b, err := os.ReadFile(filepath.Join(w.state, "jobs", name, "job.json"))
		if err == nil {
			err = json.Unmarshal(b, &rec)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		nonces <- rec.Identity.Nonce
	}
	if when == "once it ended" {
		touch(t, leave)
	}
	c, socket := startCutter(t, true, ripe)
	way := w.by(socket)
	f := way.begin(way.cmd(verb, "-u", name, "--", "sh", "-c", "echo $$ >>"+ran+"; "+until(up, leave, 9)))
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
	if when == "once it ended" {
		return
	}
	w.report("status", name).has("confirmed=true", "exit.code=9", "isolation="+w.isolation)
	// What was found is what was asked for. A scope has no nonce, but the process
	// that was to be in it, and of a call no record before that is there.
	id := w.recordOf(name).Identity
	if nonce := <-nonces; nonce != id.Nonce && (nonce != "" || w.isolation == verify.IsolationService) {
		t.Errorf("the record's nonce was %q, and is %q", nonce, id.Nonce)
	}
	if b, err := os.ReadFile(ran); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(id.PID) {
		t.Errorf("process %q ran, and the record has %d (%v)", b, id.PID, err)
	}
}

// The request itself is lost: nothing runs, and that is said; but a scope is asked
// for again, since nothing is executed before it is there.
func TestLostRequest(t *testing.T) {
	needRig(t)
	in(t, []string{verify.IsolationService, verify.IsolationScope}, func(t *testing.T, w *ward) {
		for _, verb := range []string{"run", "start"} {
			t.Run(verb, func(t *testing.T) {
				w := w.again(t)
				ran, before := filepath.Join(t.TempDir(), "ran"), runtimeFiles()
				c, socket := startCutter(t, false, nil)
				way := w.by(socket)
				code, asked, runs := 125, 1, 0
				if w.isolation == verify.IsolationScope {
					code, asked, runs = 0, 2, 1
				}
				a := way.want(code, verb, "-u", "lost-request-"+verb, "--", "sh", "-c", "echo x >>"+ran)
				if code == 0 {
					w.want(0, "wait", "--timeout", "15s", "lost-request-"+verb)
					w.report("status", "lost-request-"+verb).has("confirmed=true", "isolation=scope")
				}
				if c.count() != asked {
					t.Errorf("%d starts were sent, want %d", c.count(), asked)
				}
				if n := lineCount(t, ran); n != runs {
					t.Errorf("it ran %d times: %s", n, a)
				}
				if left := ""; !eventually(func() bool { left = loadedUnits("lost-request-*", "unitward-guard-*"); return left == "" }) {
					t.Errorf("units are left: %s", left)
				}
				if files := added(before, runtimeFiles()); len(files) > 0 {
					t.Errorf("files are left: %q", files)
				}
			})
		}
	})
}
