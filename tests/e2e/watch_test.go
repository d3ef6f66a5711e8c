package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/unitward/unitward/verify"
)

// Who waits at a terminal sees for how long, until the job has ended.
func TestWaitShowsElapsed(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		leave := filepath.Join(dir, "leave")
		w.want(0, "start", "-u", "awaited", "--", "sh", "-c", until(filepath.Join(dir, "up"), leave, 6))
		s := newSeat(t)
		p := s.begin(w.cmd("wait", "awaited"))
		s.shows("waiting for job awaited, 1s\x1b[K")
		quiet := newSeat(t)
		q := quiet.begin(w.cmd("wait", "-q", "awaited"))
		f := w.waiting("awaited")
		touch(t, leave)
		p.wants(6)
		if !eventually(func() bool { return strings.HasSuffix(s.shown(), "\x1b[K\r\x1b[K") }) {
			t.Errorf("it does not take its line away: %q", s.shown())
		}
		q.wants(6)
		f.wantStatus(6)
		if shown := quiet.shown() + f.said(); shown != "" {
			t.Errorf("with -q, and without a terminal, it shows %q", shown)
		}
	})
}

var loads = regexp.MustCompile(`watched  running  [0-9]+s +[0-9]+% +[0-9.]+[KM] +[12] +[01]s ago`)

// list --watch is drawn anew in its place on a terminal, and printed again and
// again elsewhere.
func TestListWatch(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "watched", "--output", "capture", "--", "sh", "-c", "while :; do echo x; sleep .1; done")
		for _, c := range []struct {
			name, env, heading string
		}{
			{"in colour", "NO_COLOR=", "\x1b[H\x1b[1mNAME     STATE    AGE  CPU  "},
			{"without colour", "NO_COLOR=1", "\x1b[HNAME     STATE    AGE  CPU  "},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := *w
				w.t, w.env = t, append(os.Environ(), c.env)
				s := newSeat(t)
				p := s.begin(w.cmd("list", "--watch"))
				s.shows(c.heading)
				s.shows("\x1b[K\r\nwatched  running  ")
				s.shows("\x1b[K\r\n\x1b[K\r\n\x1b[J\x1b[H") // and once more
				p.signal(syscall.SIGINT)
				p.wants(130)
				if c.env == "NO_COLOR=1" && strings.Contains(s.shown(), "\x1b[1m") {
					t.Errorf("there is colour: %q", s.shown())
				}
			})
		}
		if w.isolation == verify.IsolationGroup {
			// It counts by its processes: a share of a processor, memory, tasks.
			s := newSeat(t)
			p := s.begin(w.cmd("list", "--watch"))
			if !eventually(func() bool { return loads.MatchString(s.shown()) }) {
				t.Errorf("what it uses is not shown: %q", s.shown())
			}
			p.signal(syscall.SIGINT)
			p.wants(130)
		}
		f := w.begin(w.cmd("list", "--watch"))
		if !eventually(func() bool { return strings.Count(f.said(), "\nwatched ")+strings.Count(f.said(), "NAME ") >= 4 }) {
			t.Errorf("it prints %q", f.said())
		}
		f.signal(syscall.SIGINT)
		f.status()
		if strings.Contains(f.said(), "\x1b") {
			t.Errorf("it drives a terminal where none is: %q", f.said())
		}
		fields := strings.Fields(strings.Split(f.said(), "\n")[0])
		if got := strings.Join(fields, " "); got != "NAME STATE AGE CPU MEMORY TASKS OUTPUT COMMAND" {
			t.Errorf("the columns are %s", got)
		}
		if !strings.Contains(f.said(), "0s ago  sh -c") && !strings.Contains(f.said(), "1s ago  sh -c") {
			t.Errorf("it does not say when output came last: %q", f.said())
		}
	})
}
