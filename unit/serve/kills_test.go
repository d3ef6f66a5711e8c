package serve_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
)

// killRounds is how many sessions are killed in each isolation: few in a usual
// run, as many as SERVE_KILLS says otherwise.
func killRounds(t *testing.T) int {
	if s := os.Getenv("SERVE_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 6
}

// The server is killed at a random moment of a session. What ends with it is
// gone, what does not is found by the next with its code.
func TestServerIsKilled(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		seed := rand.Uint64()
		if s := os.Getenv("SERVE_SEED"); s != "" {
			seed, _ = strconv.ParseUint(s, 10, 64)
		}
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		var all tally
		defer func() { t.Logf("%+v", all) }()
		for round := range killRounds(t) {
			killOne(t, rung, rnd, round, &all)
			if t.Failed() {
				t.Fatalf("round %d of seed %d", round, seed)
			}
		}
		slices.Sort(all.Gone)
		t.Logf("half of the sessions' jobs were gone within %v", all.Gone[len(all.Gone)/2])
	})
}

// tally is what became of the jobs of all killed sessions. It is printed, and not
// judged: how many jobs had come to what at a random moment is chance.
type tally struct {
	// Gone is how long it took after each session until the jobs that end with
	// it were gone.
	Gone []time.Duration
	// Detached jobs ended with their own code; of the others Exited have an exit
	// on record, Lost none, and of NotStarted nothing ran.
	Detached, Exited, Lost, NotStarted int
}

func (a *tally) ended(rep unit.Report) {
	switch {
	case reason(rep) == string(unit.ReasonStartFailed):
		a.NotStarted++
	case code(rep) == 7:
		a.Detached++
	case rep.Exit.Known:
		a.Exited++
	default:
		a.Lost++
	}
}

func killOne(t *testing.T, rung string, rnd *rand.Rand, round int, all *tally) {
	state := filepath.Join(t.TempDir(), fmt.Sprint("state", round))
	defer sweep(t, state)
	dir := t.TempDir()
	os.Chmod(dir, 0o777)
	gate := filepath.Join(dir, "gate")
	// A number that no other test has tells the jobs of this session.
	mark := fmt.Sprint(5_000_000 + os.Getpid()*1000 + round)
	c := dial(t, rung, options{state: state})
	detached := fmt.Sprintf("while ! [ -e %s ]; do sleep .03; done; exit 7", gate)
	script := []func(){
		func() { c.ask("job.start", c.job(nil, "sleep", mark)) },
		func() { c.ask("job.run", c.job(nil, "sh", "-c", "sleep "+mark+" & sleep "+mark)) },
		func() { c.ask("job.start", c.job(map[string]any{"promotable": true}, "sleep", mark)) },
		func() {
			c.ask("job.start", c.job(map[string]any{"output": map[string]any{"mode": "capture"}}, "sh", "-c", "setsid sleep "+mark+" & yes"))
		},
		func() {
			c.ask("job.start", c.job(map[string]any{"name": fmt.Sprint("det", rnd.Uint32()), "lifetime": "detached"}, "sh", "-c", detached))
		},
		func() {
			name := fmt.Sprint("pro", rnd.Uint32())
			c.ask("job.start", c.job(map[string]any{"name": name, "promotable": true}, "sh", "-c", detached))
			c.ask("job.promote", map[string]any{"name": name})
		},
		func() { c.ask("job.list", map[string]any{}) },
	}
	for range 4 + rnd.IntN(5) {
		script[rnd.IntN(len(script))]()
		if rnd.IntN(2) == 0 {
			time.Sleep(time.Duration(rnd.IntN(15)) * time.Millisecond)
		}
	}
	time.Sleep(time.Duration(rnd.IntN(120)) * time.Millisecond)
	c.kill()
	killed := time.Now()
	c.Silent()
	// Who was told of a job by then is not deceived.
	started, promoted := map[string]bool{}, map[string]bool{}
	for _, m := range c.Said() {
		var r struct {
			Name   string
			Report struct{ Lifetime string }
		}
		if m.Method != "" || json.Unmarshal(m.Result, &r) != nil || r.Name == "" {
			continue
		}
		started[r.Name] = true
		promoted[r.Name] = promoted[r.Name] || r.Report.Lifetime == "detached"
	}
	for processes("sleep", mark) > 0 {
		if time.Since(killed) > patience {
			t.Fatalf("%d of the session's jobs are left", processes("sleep", mark))
		}
		time.Sleep(10 * time.Millisecond)
	}
	all.Gone = append(all.Gone, time.Since(killed))
	next := dial(t, rung, options{state: state})
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name := range started {
		if !promoted[name] {
			continue
		}
		var w serve.WaitResult
		next.call("job.wait", map[string]any{"name": name, "timeout_ms": patience.Milliseconds()}, &w)
		if !w.Reached || code(w.Report) != 7 || !w.Report.Confirmed {
			t.Errorf("detached %s: %+v", name, w)
		}
	}
	// All the others, too, are accounted for: gone, and never said to have
	// ended in a way that nobody saw.
	var list serve.ListResult
	next.call("job.list", map[string]any{"all": true}, &list)
	for _, j := range list.Jobs {
		var w serve.WaitResult
		next.call("job.wait", map[string]any{"name": j.Name, "timeout_ms": patience.Milliseconds()}, &w)
		if w.TimedOut || !w.Report.Tree.Empty || w.Report.Confirmed && !w.Report.Exit.Known && reason(w.Report) != "start-failed" {
			t.Errorf("%s: %+v", j.Name, w)
		}
		all.ended(w.Report)
	}
	next.end()
}

// A stop that a server was asked for goes on when the server is killed: SIGKILL comes
// after the grace from who stays with the job.
func TestStopOutlivesTheServer(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		dir := t.TempDir()
		os.Chmod(dir, 0o755)
		up, told := filepath.Join(dir, "up"), filepath.Join(dir, "told")
		c := dial(t, rung, options{state: state})
		name := c.start(map[string]any{"lifetime": "detached", "grace_ms": 3000}, "sh", "-c", "trap 'touch "+told+"' TERM; touch "+up+"; while :; do sleep .05; done")
		there := func(file string) {
			t.Helper()
			if !eventually(func() bool { _, err := os.Stat(file); return err == nil }) {
				t.Fatalf("%s does not appear", file)
			}
		}
		there(up)
		c.ask("job.stop", map[string]any{"name": name})
		there(told)
		c.kill()
		c = dial(t, rung, options{state: state})
		c.call("job.track", map[string]any{"name": name}, nil)
		if rep := c.settled(name); !rep.Confirmed || *rep.Reason != unit.ReasonCancelled || rep.Exit.Signal == nil || *rep.Exit.Signal != "KILL" {
			t.Errorf("%+v", rep)
		}
	})
}
