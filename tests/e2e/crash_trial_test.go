package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// life is what happens to a job: how it is begun, and how it comes to its end.
type life struct {
	verb string // run or start
	end  string // settle: by itself; stop: it is told to; entrust: so, and nobody waits
	// pty is true for a job with a terminal, to which somebody comes to end it.
	pty bool
}

func (l life) String() string {
	if l.pty {
		return l.verb + " -t, " + l.end
	}
	return l.verb + ", " + l.end
}

// lives are all of them.
var lives = []life{
	{"start", "settle", false}, {"start", "stop", false}, {"start", "settle", true}, {"start", "stop", true},
	{"start", "entrust", false}, {"run", "settle", false}, {"run", "stop", false},
}

// crash is one life of one job in which something is killed at one point.
type crash struct {
	t    testing.TB
	w    *ward
	x    *trace
	dir  string
	name string
	mark string
	life
	at point // the zero value is none: nothing is killed
	// strike kills something else while a process stands at the point; nil is
	// for killing that process. mend brings it back, while that one goes on.
	strike, mend func(t testing.TB)
	struck       bool
	// second is true once the job of the name is a later one.
	second bool
	// before are the files that others had left when it began.
	before []string
	log    []string
	states []string // what it was seen to be, at first and at last
}

func newCrash(t testing.TB, w *ward, l life, n int, dir string) *crash {
	c := &crash{t: t, life: l, dir: dir, before: runtimeFiles(), name: fmt.Sprintf("crash-%d-%d", os.Getpid(), n), mark: fmt.Sprintf("%d-%d", os.Getpid(), n)}
	own := *w
	own.t, own.state = t, filepath.Join(dir, "state")
	if own.before != nil {
		own.before = append(slices.Clone(own.before), markVariable+"="+c.mark)
	} else {
		own.env = append(os.Environ(), markVariable+"="+c.mark)
	}
	c.w = &own
	return c
}

func (c *crash) in(name string) string { return filepath.Join(c.dir, name) }

// script says that it runs, leaves a process behind, and ends with 7 once it may.
func (c *crash) script() []string {
	typed := ""
	if c.pty {
		typed = `{ read -r x </dev/tty; [ "$x" = leave ] && touch leave; } & `
	}
	return []string{"--", "sh", "-c", fmt.Sprintf("cd %s; echo x >>ran; setsid sleep 1000 & %stouch up; while ! [ -e leave ]; do sleep .02; done; echo 7 >code; exit 7", c.dir, typed)}
}

func (c *crash) args() []string {
	args := []string{c.verb, "-u", c.name, "--grace", "200ms", "--report", c.in("report")}
	if c.verb == "start" {
		args = append(args, "--key", c.name, "--output", "capture")
	}
	if c.pty {
		args = append(args, "-t")
	}
	return append(args, c.script()...)
}

// run leads the job through its life. manager is traced too if it is not 0, for
// what it executes of unitward.
func (c *crash) run(at point, manager int) {
	c.at, c.x = at, startTrace(c.t, c.dir)
	defer c.x.close()
	if manager != 0 {
		c.x.do(errand{Do: "watch", PID: manager})
	}
	c.x.do(errand{Do: "target", Target: at, Hold: c.strike != nil})
	c.phase("start")
	c.x.spawn(c.verb, c.w.cmd(c.args()...))
	if c.verb == "start" {
		c.ended("start")
	} else {
		c.until("the job comes up", func() bool { return isThere(c.in("up")) || c.over("run") })
	}
	c.phase(c.end)
	switch {
	case c.over("run"):
	case c.life == life{verb: "run", end: "stop"}:
		first, _ := c.x.find("point", "")
		_ = syscall.Kill(first.PID, syscall.SIGTERM) // it may have ended
		c.ended("run")
	case c.end == "entrust":
		c.x.spawn("stop", c.w.cmd("stop", "--no-wait", c.name))
		c.ended("stop")
		if !c.struck { // else there may be no end to wait for
			c.x.spawn("wait", c.w.cmd("wait", "--timeout", "5s", c.name))
			c.ended("wait")
		}
	case c.end == "stop":
		c.x.spawn("stop", c.w.cmd("stop", "--grace", "200ms", c.name))
		c.ended("stop")
	default:
		if c.pty {
			c.visit()
		}
		c.leave()
		if c.verb == "start" {
			c.x.spawn("wait", c.w.cmd("wait", "--timeout", "15s", c.name))
			c.ended("wait")
		} else {
			c.ended("run")
		}
	}
	if _, failed := c.x.find("failed", ""); failed {
		n, _ := c.x.find("failed", "")
		c.t.Fatal(n.Err)
	}
	c.judge()
}

func (c *crash) leave() {
	if err := os.WriteFile(c.in("leave"), nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// visit comes to the job's terminal, if there is one, and types what ends it.
func (c *crash) visit() {
	c.t.Helper()
	s := newSeat(c.t)
	p := s.begin(c.w.cmd("attach", c.name))
	s.types("leave\r")
	c.until("who is at its terminal ends it", func() bool {
		select {
		case <-p.ended:
			c.log = append(c.log, fmt.Sprintf("attach: %v: %q", p.cmd.ProcessState, s.shown()))
			if code := p.cmd.ProcessState.ExitCode(); c.at == (point{}) && code != 7 {
				c.t.Errorf("who has ended it at its terminal is told %d\n%s", code, c)
			}
			return true
		default:
			return false
		}
	})
}

func (c *crash) phase(name string) { c.x.do(errand{Do: "phase", Phase: name}) }

func (c *crash) over(id string) bool {
	_, over := c.x.find("exit", id)
	return over
}

func (c *crash) ended(id string) { c.until(id+" ends", func() bool { return c.over(id) }) }

// until waits for a condition; whoever stands at the point is struck meanwhile.
func (c *crash) until(what string, ok func() bool) {
	c.t.Helper()
	done := c.x.await(func() bool {
		if _, held := c.x.find("held", ""); held && !c.struck {
			c.struck = true
			c.strike(c.t)
			c.x.do(errand{Do: "resume"})
			c.mend(c.t)
		}
		return ok()
	})
	if !done {
		c.t.Errorf("it does not come about that %s: %s", what, c)
	}
	if _, struck := c.x.find("struck", ""); struck {
		c.struck = true
	}
}

// marked are the processes of the job that run.
func (c *crash) marked() []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/environ")
		if err != nil || !bytes.Contains(b, []byte(markVariable+"="+c.mark+"\x00")) {
			continue
		}
		if exe, err := os.Readlink(d + "/exe"); err != nil || exe == program(c.t) {
			continue
		}
		var pid int
		if line, err := os.ReadFile(d + "/cmdline"); err == nil && !bytes.HasPrefix(line, []byte("setpriv")) {
			fmt.Sscan(filepath.Base(d), &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

// ran is how often the command was executed.
func (c *crash) ran() int {
	b, _ := os.ReadFile(c.in("ran"))
	return strings.Count(string(b), "\n")
}
