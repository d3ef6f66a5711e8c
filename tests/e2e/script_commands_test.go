package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdExits runs a program and wants its exit status: exits STATUS PROGRAM...
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("cannot run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s exited with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// cmdWithin is exits for a program that a case wants to end in some time: within
// DURATION STATUS PROGRAM...
func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: within DURATION STATUS PROGRAM [ARGUMENT...]")
	}
	most, err := time.ParseDuration(args[0])
	ts.Check(err)
	start := time.Now()
	cmdExits(ts, false, args[1:])
	if took := time.Since(start); took > most {
		ts.Fatalf("%s took %v, at most %v were allowed", strings.Join(args[2:], " "), took, most)
	}
}

// cmdJSON compares fields of a report: json FILE PATH=VALUE..., where PATH is
// like exit.code or stop.steps.0.action, and VALUE is JSON or a bare string.
// PATH~TEXT wants the text within.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: json FILE PATH=VALUE...")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for _, a := range args[1:] {
		i := strings.IndexAny(a, "=~")
		if i < 0 {
			ts.Fatalf("%q is neither PATH=VALUE nor PATH~TEXT", a)
		}
		path, want := a[:i], a[i+1:]
		got, ok := dig(v, path)
		if !ok {
			ts.Fatalf("%s has no %s: %s", args[0], path, ts.ReadFile(args[0]))
		}
		text, isText := got.(string)
		if !isText {
			b, err := json.Marshal(got)
			ts.Check(err)
			text = string(b)
		}
		if a[i] == '~' && !strings.Contains(text, want) || a[i] == '=' && text != want {
			ts.Fatalf("%s: %s is %s, want %s\n%s", args[0], path, text, want, ts.ReadFile(args[0]))
		}
	}
}

func dig(v any, path string) (any, bool) {
	for _, key := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			if key == "len" {
				v = float64(len(x))
				continue
			}
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(x) {
				return nil, false
			}
			v = x[n]
		default:
			return nil, false
		}
	}
	return v, true
}

// cmdNone wants no process with the given command line, now.
func cmdNone(ts *testscript.TestScript, neg bool, args []string) {
	if pids := processes(args); len(pids) > 0 {
		ts.Fatalf("%s still runs: %v", strings.Join(args, " "), pids)
	}
}

// cmdSome waits for a process with the given command line, in a state where one is
// named: some [STATE] PROGRAM..., where STATE is a letter of proc_pid_stat(5).
func cmdSome(ts *testscript.TestScript, neg bool, args []string) {
	state := ""
	if len(args) > 1 && len(args[0]) == 1 {
		state, args = args[0], args[1:]
	}
	if !eventually(func() bool {
		return slices.ContainsFunc(processes(args), func(pid int) bool { return state == "" || stateOf(pid) == state })
	}) {
		ts.Fatalf("%s does not run, or is not in state %q", strings.Join(args, " "), state)
	}
}

// cmdNoUnit waits until the manager has no unit of a pattern loaded, where there
// is one, but for those in which all processes are another script's.
func cmdNoUnit(ts *testscript.TestScript, neg bool, args []string) {
	if !inRig() {
		return
	}
	var left string
	if !eventually(func() bool {
		units := slices.Collect(strings.Lines(loadedUnits(args...)))
		left = strings.Join(slices.DeleteFunc(units, func(line string) bool {
			unit, _, _ := strings.Cut(line, " ")
			return ofAnother(unit, ts.Getenv("WORK"))
		}), "")
		return left == ""
	}) {
		ts.Fatalf("units are left: %s", left)
	}
}
