package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// trial is one job and what happens to it.
type trial struct {
	t    *testing.T
	w    *ward
	seed uint64
	rnd  *rand.Rand
	dir  string
	name string
	seen map[string]int

	verb, policy, script string
	killed               []string
	// keeper and reaper are true while the ones of the job were left alone.
	keeper, reaper bool
	caller         *exec.Cmd
	status         int
	said           bytes.Buffer
	log            []string
}

func (x *trial) String() string {
	return fmt.Sprintf("%s --leftovers %s -- sh -c %q; killed %v; status %d %s\n%s", x.verb, x.policy, x.script, x.killed, x.status, &x.said, strings.Join(x.log, "\n"))
}

// scripts end with code 7, or stay; what they leave does not end by itself.
var killScripts = []string{
	`echo 7 >code; exit 7`,
	`sleep .01; echo 7 >code; exit 7`,
	`setsid sleep 1000 & sleep .01; echo 7 >code; exit 7`,
	`(trap "" TERM; setsid sleep 1000) & echo 7 >code; exit 7`,
	`for i in 1 2 3 4; do (setsid sleep 1000 &); done; sleep .02; echo 7 >code; exit 7`,
	`sleep 1000 | cat`,
	`while :; do (sleep .01; setsid sleep .02) & sleep .005; done`,
	`exec sleep 1000`,
}

func (x *trial) run() {
	x.name = fmt.Sprintf("kill-%d", x.seed%1e9)
	x.keeper, x.reaper = true, true
	if err := os.MkdirAll(x.dir, 0o700); err != nil {
		x.t.Fatal(err)
	}
	x.verb, x.policy = pick(x.rnd, "run", "run", "start"), pick(x.rnd, "kill", "wait")
	x.script = pick(x.rnd, killScripts...)
	w := *x.w
	w.state = filepath.Join(x.dir, "state")
	x.w = &w
	x.begin()
	for range 1 + x.rnd.IntN(3) {
		x.strike(pick(x.rnd, "caller", "keeper", "reaper", "main", "member", "unitward", ""), pick(x.rnd, 1, 5, 30))
	}
	x.judge()
	x.seen["outcome "+x.outcome()]++
	os.RemoveAll(x.dir)
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

func (x *trial) begin() {
	x.caller = x.w.cmd(x.verb, "-u", x.name, "--leftovers", x.policy, "--grace", "50ms", "--report", filepath.Join(x.dir, "report"),
		"--stdin", "null", "--output", "null", "--", "sh", "-c", "cd "+x.dir+"; "+x.script)
	x.caller.Env = append(x.caller.Env, fmt.Sprintf("%s=%d", markVariable, x.seed))
	x.caller.Stderr = &x.said
	if err := x.caller.Start(); err != nil {
		x.t.Fatal(err)
	}
}

// record is the job's, as far as it is written.
func (x *trial) record() *unit.Record {
	b, err := os.ReadFile(filepath.Join(x.w.state, "jobs", x.name, "job.json"))
	var rec unit.Record
	if err != nil || json.Unmarshal(b, &rec) != nil {
		return nil
	}
	return &rec
}

// await waits for the caller.
func (x *trial) await() {
	ended := make(chan struct{})
	go func() { x.caller.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience):
		x.t.Errorf("the caller does not end: %s", x.tree())
		x.caller.Process.Kill()
		<-ended
	}
	x.status = x.caller.ProcessState.ExitCode()
}

// do runs a verb and checks what it says; nil when there is no such job.
func (x *trial) do(args ...string) *unit.Report {
	a, err := perform(x.w.cmd(append([]string{"--json"}, args...)...))
	if err != nil {
		x.t.Fatal(err)
	}
	x.log = append(x.log, fmt.Sprintf("%v: %d %s%s", args, a.code, a.out, a.err))
	if strings.Contains(a.out, `"error":{`) || a.out == "" {
		return nil
	}
	return x.check(args[0], []byte(a.out))
}

// check holds a report against the truth.
func (x *trial) check(what string, b []byte) *unit.Report {
	var rep unit.Report
	if err := json.Unmarshal(b, &rep); err != nil {
		x.t.Fatalf("%s: %v: %q", what, err, b)
	}
	if rep.Confirmed || rep.Tree.Empty {
		if left := x.members(); len(left) > 0 {
			x.t.Errorf("%s says that the tree is empty, and there is %s\n%s", what, x.tree(), b)
		}
	}
	own, err := os.ReadFile(filepath.Join(x.dir, "code"))
	switch {
	case rep.Exit.Known && rep.Exit.Signal == nil && (rep.Exit.Code == nil || *rep.Exit.Code != 7 && !x.innocent(*rep.Exit.Code)):
		x.t.Errorf("%s tells of an exit that was none: %s", what, b)
	case rep.Exit.Known && rep.Exit.Code != nil && *rep.Exit.Code == 7 && (err != nil || string(own) != "7\n"):
		x.t.Errorf("%s tells of an exit that the job knows nothing of: %s", what, b)
	case rep.Confirmed && !rep.Exit.Known && (rep.Reason == nil || *rep.Reason != unit.ReasonStartFailed):
		x.t.Errorf("%s confirms what is not known: %s", what, b)
	case rep.Reason != nil && *rep.Reason == unit.ReasonStartFailed && err == nil:
		x.t.Errorf("%s says that nothing ran: %s", what, b)
	}
	return &rep
}

// innocent is true for codes that a shell makes of a killed child, and for that
// of a main process that was never told to begin.
func (x *trial) innocent(code int) bool {
	return code == 128+int(unix.SIGKILL) || code == 128+int(unix.SIGTERM) || code == 0 && strings.Contains(x.script, "cat") || code == 125
}

func (x *trial) raw() string { return strings.Join(x.log, "\n") }

// tree describes what descends from this process.
func (x *trial) tree() string {
	all, _ := keeper.Descendants(os.Getpid())
	var out []string
	for _, p := range all {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		out = append(out, fmt.Sprintf("%d %q %.60s %s", p.PID, line, stat, x.role(p, x.record())))
	}
	return strings.Join(out, "; ")
}

// outcome is a short name of how it ended.
func (x *trial) outcome() string {
	who := map[bool]string{true: "lived", false: "killed"}
	rec := x.record()
	end := "no job"
	switch {
	case rec == nil:
	case rec.Sealed == nil:
		end = "unconfirmed"
	case rec.Sealed.Exit.Signal != nil:
		end = "confirmed, signal " + *rec.Sealed.Exit.Signal
	case rec.Sealed.Exit.Known:
		end = "confirmed, a code"
	default:
		end = "confirmed, not started"
	}
	return fmt.Sprintf("%-5s keeper %-6s reaper %-6s %s", x.verb, who[x.keeper], who[x.reaper], end)
}
