package serve_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/tests/peer"
	"github.com/unitward/unitward/unit/serve"
)

func TestFactsComeInOrder(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		name := c.start(map[string]any{"owner": "s1", "token": "t1"}, "sh", "-c", "echo out; echo err >&2; exit 3")
		rep := c.settled(name)
		if code(rep) != 3 || !rep.Confirmed || reason(rep) != "failed" || rep.Owner != "s1" {
			t.Errorf("settled as %+v", rep)
		}
		if out, err := c.all(name, "stdout"), c.all(name, "stderr"); out != "out\n" || err != "err\n" {
			t.Errorf("output %q, %q", out, err)
		}
		if s := rep.Streams; s.State != "closed" || *s.StdoutBytes != 4 || *s.StderrBytes != 4 || *s.DroppedBytes != 0 {
			t.Errorf("streams %+v", s)
		}
		var order []string
		last := serve.Facts{}
		for _, m := range c.Said() {
			if m.name != name {
				continue
			}
			order = append(order, m.Method)
			var p struct{ Facts serve.Facts }
			if err := json.Unmarshal(m.Params, &p); err != nil {
				t.Error(err)
			}
			if last.Exit && !p.Facts.Exit || last.Tree && !p.Facts.Tree || last.Settled {
				t.Errorf("%s after %+v", m.raw, last)
			}
			last = p.Facts
		}
		at := func(m string) int { return slices.Index(order, m) }
		if at("job/started") != 0 || at("job/settled") != len(order)-1 || at("job/exit") < 0 || at("job/tree") < 0 ||
			at("job/streams") < at("job/output") || last != (serve.Facts{Exit: true, Streams: true, Tree: true, Settled: true}) {
			t.Errorf("%v, %+v", order, last)
		}
		if e := c.end(); e.Why != "eof" || !e.Confirmed || len(e.Stopped)+len(e.Left) != 0 {
			t.Errorf("%+v", e)
		}
	})
}

func TestExitIsToldBeforeLeftoversEnd(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		name := c.start(map[string]any{"leftovers": "wait"}, "sh", "-c", "sleep 300 & exit 4")
		var w serve.WaitResult
		c.call("job.wait", map[string]any{"name": name, "for": "exit"}, &w)
		if !w.Reached || !w.Facts.Exit || w.Facts.Tree || w.Facts.Streams || code(w.Report) != 4 {
			t.Errorf("%+v", w)
		}
		c.told("job/exit", name)
		var s serve.StopResult
		c.call("job.stop", map[string]any{"name": name}, &s)
		if !s.Confirmed || code(s.Report) != 4 || !s.Facts.Settled {
			t.Errorf("%+v", s)
		}
	})
}

func TestRunStopsAndSaysWhy(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		if r := c.run(nil, "sh", "-c", "exit 124"); code(r.Report) != 124 || reason(r.Report) != "failed" {
			t.Errorf("124: %+v", r)
		}
		if r := c.run(nil, "sh", "-c", "kill -9 $$"); reason(r.Report) != "signaled" || *r.Report.Exit.Signal != "KILL" {
			t.Errorf("KILL: %+v", r)
		}
		if r := c.run(map[string]any{"timeout_ms": 200}, "sh", "-c", "sleep 301 & sleep 302"); reason(r.Report) != "timeout" || !r.Report.Confirmed {
			t.Errorf("timeout: %+v", r)
		}
		if r := c.run(nil, "sh", "-c", "setsid sleep 303 >/dev/null 2>&1 & exit 0"); code(r.Report) != 0 || !r.Report.Confirmed {
			t.Errorf("leftovers: %+v", r)
		}
		if r := c.run(map[string]any{"cwd": "/tmp", "env": map[string]any{"A": "b c", "HOME": nil}}, "sh", "-c", `test "$A" = "b c" && test -z "$HOME" && test "$PWD" = /tmp`); code(r.Report) != 0 {
			t.Errorf("environment: %+v", r)
		}
		raw := []any{"sh", "-c", `printf %s "$1"`, "sh", map[string]string{"base64": "/4A="}}
		var r serve.RunResult
		c.call("job.run", c.job(map[string]any{"command": raw, "name": "raw", "output": map[string]any{"encoding": "base64"}}), &r)
		if got := c.all("raw", "stdout"); got != "/4A=" {
			t.Errorf("raw: %q", got)
		}
		// A run that is cancelled is a job that is stopped.
		id := c.ask("job.run", c.job(map[string]any{"name": "cancelled"}, "sleep", "304"))
		c.told("job/started", "cancelled")
		c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + id + `}}`)
		c.answer(id).into(t, &r)
		if !r.Cancelled || reason(r.Report) != "cancelled" || !r.Report.Confirmed || !r.Facts.Settled {
			t.Errorf("cancelled: %+v", r)
		}
	})
}

func TestStartsThatFail(t *testing.T) {
	c := dial(t, "group", options{})
	if e := c.fails("usage", "job.start", c.job(map[string]any{"manager": "user"}, "true")); e.Data.Field != "manager" {
		t.Errorf("%+v", e)
	}
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := mkfifo(fifo); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		says   string
		more   map[string]any
		argv   []string
		status int
	}{
		{"no-such-command-anywhere", nil, []string{"no-such-command-anywhere"}, 127},
		{plain, nil, []string{plain}, 126},
		{dir + "/none", map[string]any{"cwd": dir + "/none"}, []string{"true"}, 125},
		{"cannot start true: open " + dir + "/none/x: ", map[string]any{"output": map[string]any{"mode": "files", "stdout": dir + "/none/x"}}, []string{"true"}, 125},
		{"cannot start true: open " + fifo + ": it is a FIFO", map[string]any{"output": map[string]any{"mode": "files", "stdout": fifo}}, []string{"true"}, 125},
	} {
		e := c.do("job.start", c.job(x.more, x.argv...)).fails(t, "start_failed")
		if e.Data.Status != x.status || e.Code != serve.CodeStartFailed || !strings.Contains(e.Message, x.says) {
			t.Errorf("%s: %+v", x.says, e)
		}
	}
	if e := c.do("job.start", c.job(map[string]any{"uid": "no-such-user-anywhere"}, "true")).fails(t, "usage"); e.Code != serve.CodeParams {
		t.Errorf("no user: %+v", e)
	}
	c.start(map[string]any{"name": "taken"}, "sleep", "310")
	if e := c.do("job.start", c.job(map[string]any{"name": "taken"}, "true")).fails(t, "exists"); e.Data.Name != "taken" {
		t.Errorf("%+v", e)
	}
	for _, x := range []struct {
		field, says string
		more        map[string]any
	}{
		{"name", `"-x"`, map[string]any{"name": "-x"}},
		{"isolation", `isolation "nothing": `, map[string]any{"isolation": []string{"nothing"}}},
		{"manager", `manager "mine": `, map[string]any{"manager": "mine"}},
		{"cgroup_parent", "with isolation group", map[string]any{"cgroup_parent": "/x"}},
		{"cgroup_parent", `cgroup_parent "x": a clean absolute path`, map[string]any{"isolation": nil, "cgroup_parent": "x"}},
		{"slice", "a part between dashes is empty", map[string]any{"slice": "a--b.slice"}},
		{"lifetime", `lifetime "never": one of call, `, map[string]any{"lifetime": "never"}},
		{"lifetime", "no owner was named", map[string]any{"lifetime": "owner"}},
		{"owner_pid", "owner_pid -4: ", map[string]any{"lifetime": "owner", "owner_pid": -4}},
		{"owner_pid", "owner_pid with lifetime call", map[string]any{"owner_pid": 1}},
		{"owner_unit", "owner_unit with owner_pid", map[string]any{"lifetime": "owner", "owner_unit": "a.scope", "owner_pid": 1}},
		{"owner_unit", `"a.target"`, map[string]any{"lifetime": "owner", "owner_unit": "a.target"}},
		{"uid", `uid "a:b": it is no name`, map[string]any{"uid": "a:b"}},
		{"gid", `gid "65535": it is no number`, map[string]any{"gid": "65535"}},
		{"limits.memory_max", `limits.memory_max with properties "MemoryMax=1G"`, map[string]any{"limits": map[string]any{"memory_max": "1M"}, "properties": []string{"MemoryMax=1G"}}},
		{"cwd", `cwd with properties "WorkingDirectory=/"`, map[string]any{"cwd": "/", "properties": []string{"WorkingDirectory=/"}}},
		{"output.mode", `output.mode "notify": `, map[string]any{"lifetime": "detached", "output": map[string]any{"mode": "notify"}}},
		{"output.on_max", `output.on_max "x": one of truncate, stop`, map[string]any{"output": map[string]any{"on_max": "x"}}},
		{"output.merged", "this is null", map[string]any{"output": map[string]any{"mode": "null", "merged": true}}},
		{"output.stdout", "needs a file", map[string]any{"output": map[string]any{"mode": "files"}}},
		{"output.max_bytes", "output.max_bytes -1: ", map[string]any{"output": map[string]any{"max_bytes": -1}}},
		{"kill_signal", `kill_signal "NONE": `, map[string]any{"kill_signal": "NONE"}},
		{"timeout_ms", "timeout_ms -1: ", map[string]any{"timeout_ms": -1}},
		{"nice", "nice 20: ", map[string]any{"nice": 20}},
		{"env", `env "A=B": `, map[string]any{"env": map[string]any{"A=B": "c"}}},
		{"env.UNITWARD_JOB", "unitward sets it", map[string]any{"env": map[string]any{"UNITWARD_JOB": "c"}}},
		{"cwd", `cwd "a\x00b": `, map[string]any{"cwd": "a\x00b"}},
		{"command", "it is empty", map[string]any{"command": []string{}}},
		{"command[1]", `command[1] "a\x00": `, map[string]any{"command": []string{"true", "a\x00"}}},
		{"key", "it has 300 bytes", map[string]any{"key": strings.Repeat("k", 300)}},
	} {
		e := c.do("job.start", c.job(x.more, "true")).fails(t, "usage")
		if e.Data.Field != x.field || e.Code != serve.CodeParams || !strings.Contains(e.Message, x.says) || len(e.Message) > 500 {
			t.Errorf("%s, %s: %+v", x.field, x.says, e)
		}
	}
	for field, more := range map[string]map[string]any{
		"output.mod": {"output": map[string]any{"mod": "null"}}, "Name": {"Name": "x"}, "timeout_ms": {"timeout_ms": "1s"}, "command": {"command": []any{1}}, "limits": {"limits": []int{}},
	} {
		if e := c.do("job.start", c.job(more, "true")).fails(t, "params"); e.Data.Field != field {
			t.Errorf("%s: %+v", field, e)
		}
	}
	entries, _ := os.ReadDir(filepath.Join(c.state, "jobs"))
	if len(entries) != 1 {
		t.Errorf("what did not start has left %v", entries)
	}
}

// A run that joined a job does not detach what was not started as promotable,
// whosever it is: it waits for its end. Of one that goes on by itself it says so.
func TestJoinedJobKeepsItsLifetime(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		c := dial(t, rung, options{state: state})
		starters := map[string]*client{"own": c, "another's": dial(t, rung, options{state: state})}
		runs := map[string]string{}
		for key, starter := range starters {
			starter.start(map[string]any{"key": key, "name": key[:3]}, "sleep", "3882")
			runs[key] = c.ask("job.run", c.job(map[string]any{"key": key, "background_after_ms": 1}, "sleep", "3882"))
		}
		// By the time that this is answered the others would have been, too.
		c.start(map[string]any{"key": "d", "lifetime": "detached"}, "sleep", "3883")
		var r serve.RunResult
		c.call("job.run", c.job(map[string]any{"key": "d", "background_after_ms": 300}, "sleep", "3883"), &r)
		if !r.Background || r.Report.Lifetime != "detached" || r.Report.State != "running" {
			t.Errorf("detached: %+v", r)
		}
		for key, run := range runs {
			if rec := recordOf(t, state, key[:3]); rec.Lifetime != "call" {
				t.Errorf("%s: lifetime %s", key, rec.Lifetime)
			}
			c.call("job.stop", map[string]any{"name": key[:3]}, nil)
			if c.answer(run).into(t, &r); r.Background || !r.Facts.Settled || r.Report.Lifetime != "call" || r.Cancelled {
				t.Errorf("%s: %+v", key, r)
			}
		}
	})
}

func TestKeyJoinsTheRunningJob(t *testing.T) {
	c := dial(t, "group", options{})
	a := c.start(map[string]any{"key": "k"}, "sleep", "321")
	var r serve.StartResult
	c.call("job.start", c.job(map[string]any{"key": "k"}, "sleep", "321"), &r)
	if !r.Joined || r.Name != a {
		t.Errorf("%+v, want %s", r, a)
	}
	c.call("job.stop", map[string]any{"name": a}, nil)
	c.settled(a)
}

func TestStopReachesEverything(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		for name, script := range map[string]string{
			"pipe":    "sleep 330 | cat; true",
			"session": "setsid sleep 331 & wait",
			"deaf":    `trap "" TERM; sleep 332 & while :; do sleep .1; done`,
			"stopped": "sleep 333 & kill -STOP $$",
			"killed":  "sleep 334 & sleep .1; kill -9 $$",
		} {
			c.start(map[string]any{"name": name, "owner": "all", "leftovers": "wait"}, "sh", "-c", script)
		}
		c.start(map[string]any{"name": "other", "owner": "other"}, "sleep", "335")
		var r serve.StopOwnerResult
		c.call("job.stopOwner", map[string]any{"owner": "all", "grace_ms": 300}, &r)
		if !r.Confirmed || len(r.Stopped) != 5 || len(r.Unconfirmed) != 0 {
			t.Errorf("%+v", r)
		}
		if n := processes("sleep", "33[0-4]"); n != 0 {
			t.Errorf("%d are left", n)
		}
		var st serve.JobResult
		c.call("job.status", map[string]any{"name": "other"}, &st)
		if st.Report.State != "running" || st.Facts != (serve.Facts{}) {
			t.Errorf("%+v", st)
		}
		// An impatient stop overtakes a patient one, and both get the proof.
		c.start(map[string]any{"name": "slow"}, "sh", "-c", `trap "" TERM; echo up; while :; do sleep .1; done`)
		c.told("job/output", "slow")
		patient := c.ask("job.stop", map[string]any{"name": "slow", "grace_ms": 600000})
		time.Sleep(50 * time.Millisecond)
		impatient := c.ask("job.stop", map[string]any{"name": "slow", "grace_ms": 100})
		for _, id := range []string{patient, impatient} {
			var s serve.StopResult
			c.answer(id).into(t, &s)
			if !s.Confirmed || *s.Report.Exit.Signal != "KILL" || reason(s.Report) != "cancelled" {
				t.Errorf("%+v", s)
			}
		}
		// What has ended says so, with its own code.
		c.run(map[string]any{"name": "done"}, "sh", "-c", "exit 9")
		var s serve.StopResult
		c.call("job.stop", map[string]any{"name": "done"}, &s)
		if !s.Confirmed || code(s.Report) != 9 || s.Report.Stop.RequestedAt != nil {
			t.Errorf("%+v", s)
		}
	})
}

// processes counts those of our own jobs.
func processes(argv ...string) int { return peer.Processes(argv...) }

func TestSignalsAndPauses(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		name := c.start(nil, "sh", "-c", `trap "echo got; exit 5" USR1; echo up; while :; do sleep .03; done`)
		c.told("job/output", name)
		c.call("job.pause", map[string]any{"name": name}, nil)
		c.call("job.resume", map[string]any{"name": name}, nil)
		c.call("job.signal", map[string]any{"name": name, "signal": "USR1"}, nil)
		if rep := c.settled(name); code(rep) != 5 || reason(rep) != "failed" {
			t.Errorf("%+v", rep)
		}
		if got := c.all(name, "stdout"); got != "up\ngot\n" {
			t.Errorf("%q", got)
		}
		c.fails("ended", "job.signal", map[string]any{"name": name, "signal": "USR1"})
		c.fails("ended", "job.pause", map[string]any{"name": name})
		c.fails("not_found", "job.signal", map[string]any{"name": "nobody", "signal": "USR1"})
		c.fails("usage", "job.signal", map[string]any{"name": name, "signal": "NONE"})
		// A paused job is stopped all the same.
		name = c.start(nil, "sleep", "340")
		c.call("job.pause", map[string]any{"name": name}, nil)
		var s serve.StopResult
		c.call("job.stop", map[string]any{"name": name}, &s)
		if !s.Confirmed || *s.Report.Exit.Signal != "TERM" {
			t.Errorf("%+v", s)
		}
	})
}

func TestWaits(t *testing.T) {
	c := dial(t, "group", options{})
	name := c.start(nil, "sleep", "341")
	var w serve.WaitResult
	c.call("job.wait", map[string]any{"name": name, "timeout_ms": 20}, &w)
	if w.Reached || !w.TimedOut || w.Cancelled || w.Report.State != "running" || len(w.Report.Tree.Members) != 1 {
		t.Errorf("timeout: %+v", w)
	}
	id := c.ask("job.wait", map[string]any{"name": name})
	c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + id + `}}`)
	w = serve.WaitResult{}
	c.answer(id).into(t, &w)
	if w.Reached || w.TimedOut || !w.Cancelled || w.Report.State != "running" {
		t.Errorf("cancel: %+v", w)
	}
	id = c.ask("job.wait", map[string]any{"name": name, "for": "tree"})
	c.call("job.stop", map[string]any{"name": name}, nil)
	c.answer(id).into(t, &w)
	if !w.Reached {
		t.Errorf("tree: %+v", w)
	}
	c.call("job.wait", map[string]any{"name": name, "timeout_ms": 0}, &w)
	if !w.Reached {
		t.Errorf("at once: %+v", w)
	}
	c.fails("not_found", "job.wait", map[string]any{"name": "nobody"})
	c.fails("usage", "job.wait", map[string]any{"name": name, "for": "ever"})
}
