package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestUsage(t *testing.T) {
	state := alone(t)
	for _, c := range []struct {
		args string
		says string
	}{
		{"", "no verb was given"},
		{"make test", `the verb "make"`},
		{"--nonsense", "unknown flag"},
		{"run", "no command was given"},
		{"run --", "no command was given"},
		{"run --nonsense true", "unknown flag"},
		{"run --on-active 1h true", "unknown flag: --on-active\nhint: what starts a job later, or again and again, is made by unitward start"},
		{"stop later.timer", "another type of unit\nhint: what starts jobs is no job itself; systemctl has it (with --user where start had it): systemctl stop later.timer"},
		{"run -u .x true", `starts with '.'`},
		{"run -u /a/b true", "a path"},
		{"run -u x.scope true", ".scope"},
		{"run --user --system true", "together"},
		{"run --isolation vm true", `--isolation "vm"`},
		{"run --slice x true", "slice"},
		{"run --timeout x true", `--timeout "x"`},
		{"run --timeout 0 true", "longer than nothing"},
		{"run --timeout -1s true", "not a time"},
		{"run --grace x true", `--grace "x"`},
		{"run --kill-signal NONSENSE true", "no such signal"},
		{"run --kill-signal 65 true", "no such signal"},
		{"run --leftovers x true", "one of kill, wait, keep"},
		{"run --lifetime x true", "one of call, owner, detached"},
		{"run --lifetime owner true", "no owner was named"},
		{"run --owner-pid 1 true", "add --lifetime owner"},
		{"run --owner-pid 0 true", "the number of a process is expected"},
		{"start --lifetime owner --owner-pid 0 true", "the number of a process is expected"},
		{"run --host=-oProxyCommand=x/y true", "[USER@]HOST[:PORT][/CONTAINER] is expected"},
		{"version x", `"x" with version: it takes no arguments`},
		{"run --stdin x true", "one of null, inherit"},
		{"run --output x true", "one of capture, inherit, journal, null"},
		{"run --nice 20 true", "-20 to 19"},
		{"run --nice -21 true", "-20 to 19"},
		{"run --nice x true", "a whole number is expected"},
		{"run --memory-max x true", "MemoryMax"},
		{"run --tasks-max x true", "TasksMax"},
		{"run --cpu-quota x true", "CPUQuota"},
		{"run -p NoSuchThing=1 true", "NoSuchThing"},
		{"run -E =x true", "NAME=VALUE"},
		{"run -E 1=2 true", "does not start with a digit"},
		{"run -E A.B true", "NAME=VALUE is expected"},
		{"run --report fd:x true", "number is expected"},
		{"run --expand-environment maybe true", "yes or no is expected"},
		{"run --host h --user true", "ssh h unitward run --user"},
		{"run --host h --machine m true", "--host HOST/MACHINE"},
		{"run --host -oProxyCommand=x true", "[USER@]HOST[:PORT][/CONTAINER] is expected"},
		{"run --machine a/b true", "[USER@]NAME is expected"},
		{"run --host h --pty true", "streams do not go there"},
		{"run --host h -P true", "streams do not go there"},
		{"run --host h --output capture true", "streams do not go there"},
		{"run --host h --stdin inherit true", "streams do not go there"},
		{"run --host h -S", "streams do not go there"},
		{"start --host h --pty true", "streams do not go there"},
		{"run --host h -E A=b true", "-p LoadCredential=ID:PATH"},
		{"run --host h --clean-env true", "the environment that its manager gives"},
		{"run --host h --scope true", "nothing but a service is seen"},
		{"run --host h --isolation cgroup,group true", "nothing but a service is seen"},
		{"run --host h --lifetime call true", "nobody there watches"},
		{"start -M m --lifetime owner --owner-pid 1 true", "nobody there watches"},
		{"run --host h --require-limits --memory-max 1M true", "not seen from here"},
		{"run --host h --slice-inherit true", "the caller is in no slice there"},
		{"run --host h --working-directory x true", "an absolute path is expected"},
		{"start --host h --on-active 1h true", "run unitward there"},
		{"run -C c true", "another user's"},
		{"run --shell true", "the shell is the command"},
		{"run -T --output null true", "the terminal takes the job's output"},
		{"run --json=yaml true", "short, pretty or off"},
		{"run --scope --root-directory / true", "service is expected"},
		{"run --isolation cgroup --root-directory / true", "service is expected"},
		{"run --pty --detach-keys ^1 true", "no key of Ctrl and"},
		{"run --detach-keys none true", "without --pty"},
		{"run --pty --output null true", "the terminal takes the job's output"},
		{"run --pty --stdin null true", "the terminal is the job's input"},
		{"start", "no command was given"},
		{"start --lifetime call true", "it would end with this command"},
		{"wait", "no job was named"},
		{"wait --for nonsense x", "exit, tree, settled"},
		{"wait --timeout x y", "not a time"},
		{"wait /x/y", "a path"},
		{"status", "cannot show a status: no job was named"},
		{"stop", "no job was named"},
		{"stop --grace x y", "not a time"},
		{"kill", "no job was named"},
		{"kill -s NONSENSE x", "no such signal"},
		{"kill --who nobody x", "main or all"},
		{"pause", "no job was named"},
		{"resume", "no job was named"},
		{"verify", "no job was named"},
		{"verify a b", "one job at a time"},
		{"list x", "no arguments"},
		{"logs", "cannot show logs: no job was named"},
		{"logs a b", "one job at a time"},
		{"logs --stream both x", "stdout or stderr"},
		{"logs --tail -1 x", "invalid argument"},
		{"logs --tail x y", "invalid argument"},
		{"logs --cursor o1 x", `cursor "o1"`},
		{"doctor x", "no arguments"},
		{"help nope", `help with "nope"`},
		{"help run nope", `help with "run nope"`},
		{"run --user=x true", "yes or no is expected"},
		{"run --pty=maybe true", "yes or no is expected"},
		{"logs --follow=2 x", "yes or no is expected"},
		{"run --owner-pid x true", "a whole number is expected"},
		{"run --report - true", "standard output is the job's"},
		{"run --report / true", "is a directory\nhint: name a file"},
		{"run -E UNITWARD_JOB=x true", "unitward sets it"},
		{"run -E UNITWARD_JOB true", "unitward sets it"},
		{"run -u a\xff true", `\xff`},
		{"run --description \xff true", "not valid UTF-8"},
		{"run --owner a\xff true", "not valid UTF-8"},
		{"shell --", "no command comes after --"},
		{"run --uid -1 true", `--uid "-1": it is no name`},
		{"run --uid a:b true", `--uid "a:b": it is no name`},
		{"run --uid 65535 true", `--uid "65535": it is no number`},
		{"start --gid 99999999999 true", `--gid "99999999999": it is no number`},
		{"run --isolation group --uid no-such-user-anywhere true", "getent passwd lists them"},
		{"run --isolation group --gid no-such-group-anywhere true", "getent group lists them"},
		{"run --root-directory rel true", "rel is no directory"},
		{"run --root-directory /dev/null true", "/dev/null is no directory"},
		{"run --cgroup-parent rel true", "absolute path is expected"},
		{"run --cgroup-parent /a/../b true", "absolute path is expected"},
		{"verify --job-dir rel", "no job's directory"},
		{"verify --job-dir jobs/foo", "no record in it"},
	} {
		status, out, errs := do(t, strings.Fields(c.args)...)
		lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
		if status != exitError || out != "" || !strings.HasPrefix(lines[0], "unitward: cannot ") || !strings.Contains(errs, c.says) {
			t.Errorf("%q: status %d, %q, %q; want 125 and %q", c.args, status, out, errs, c.says)
		}
		for _, l := range lines[1:] {
			if !strings.HasPrefix(l, "hint: ") {
				t.Errorf("%q: more than one line: %q", c.args, errs)
			}
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "jobs")); len(entries) != 0 {
		t.Errorf("a mistake left %v", entries)
	}
}

// Options that cannot both hold are refused, and neither is taken silently.
func TestContradictions(t *testing.T) {
	state := alone(t)
	for _, c := range []struct{ args, says string }{
		{"run --user --system true", "--user and --system together"},
		{"run --working-directory / --same-dir true", "--working-directory and --same-dir together"},
		{"run --root-directory / --same-root-dir true", "--root-directory and --same-root-dir together"},
		{"start --wait --no-block true", "--wait and --no-block together"},
		{"run --no-block true", "run waits for the end"},
		{"start --wait true", "start does not wait"},
		{"start --on-active 1h --wait true", "start does not wait"},
		{"start --pipe true", "leaves the caller's streams alone"},
		{"start --on-active 1h --lifetime call true", "it would end with this command"},
		{"run --pipe --output null true", "passes the caller's streams"},
		{"run --pipe --stdin null true", "passes the caller's streams"},
		{"run --scope --cgroup-parent /x true", "--scope and --cgroup-parent together"},
		{"run --user --cgroup-parent /x true", "a manager makes the cgroups"},
		{"run --scope --isolation group true", "--scope and --isolation"},
		{"run --isolation group --user true", "no manager holds such a job"},
		{"run --isolation cgroup,group --system true", "no manager holds such a job"},
		{"run --service-type oneshot -p Nice=1 -p TimeoutStartSec=1 true", "it would bound the whole run"},
		{"run --isolation group --service-type simple true", "no service holds such a job"},
		{"run --isolation group --job-mode replace true", "which needs a manager"},
		{"run --isolation group --slice x.slice true", "which needs a manager"},
		{"run --scope --service-type exec true", "no service holds such a job"},
		{"run --output-max 1M true", "nothing is captured"},
		{"run --on-output-max stop true", "nothing is captured"},
		{"start --output null --output-max 1M true", "nothing is captured"},
		{"start --on-active 1h --output journal --on-output-max stop true", "nothing is captured"},
		{"start --pty --output inherit true", "what is printed on the terminal is captured"},
		{"start --on-active 1h --pty true", "a terminal is one start's"},
		{"start -u there --on-active 1h --memory-max 1G", "cannot use --memory-max: no command was given"},
		{"start --socket-property ListenStream=/run/x --owner o true", "cannot use --owner with a socket"},
		{"start --socket-property ListenStream=/run/x --output null true", "cannot use --output with a socket"},
		{"start --socket-property ListenStream=/run/x --leftovers wait true", "cannot use --leftovers with a socket"},
		{"start --host h --root-directory here true", "an absolute path is expected"},
		{"start --on-active 1h --path-property PathExists=/x true", "one unit starts it"},
		{"run --pty --output capture true", "the terminal takes the job's output"},
		{"run --lifetime owner --owner-pid 1 --detach-after 1s true", "ends with nobody"},
		{"run --pty --key k true", "cannot use --pty with --key"},
		{"run --memory-max 1M -p MemoryMax=2M true", `--memory-max with --property "MemoryMax=2M": both`},
		{"run --nice 1 -p Nice=2 true", "both set the property\nhint: leave out one of the two"},
		{"run --description a -p Description=b true", "--description with --property"},
		{"list --orphans --all", "--orphans and --all together"},
		{"stop --owner x y", "--owner names the jobs"},
		{"verify --job-dir x y", "--job-dir and a name"},
		{"verify --job-dir x --state-dir y", "--job-dir and --state-dir together"},
		{"attach --take --read-only x", "--read-only and --take together"},
	} {
		status, out, errs := do(t, strings.Fields(c.args)...)
		if status != exitError || out != "" || !strings.HasPrefix(errs, "unitward: cannot ") || !strings.Contains(errs, c.says) {
			t.Errorf("%q: status %d, %q, %q; want 125 and %q", c.args, status, out, errs, c.says)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "jobs")); len(entries) != 0 {
		t.Errorf("a mistake left %v", entries)
	}
	for _, args := range []string{"run --isolation group --same-dir=false --working-directory / true", "run --isolation group --user=false true", "run --isolation group --output capture --output-max 1M true"} {
		if status, _, errs := do(t, strings.Fields(args)...); status != 0 {
			t.Errorf("%q: %d, %q", args, status, errs)
		}
	}
}

// An empty name is none.
func TestEmptyNames(t *testing.T) {
	state := alone(t)
	for _, verb := range []string{"run", "start", "shell"} {
		if status, out, errs := do(t, verb, "--", ""); status != 127 || out != "" || !strings.HasPrefix(errs, `unitward: cannot start "": the command's name is empty`+"\nhint: ") {
			t.Errorf("%s: %d, %q, %q", verb, status, out, errs)
		}
	}
	if status, _, errs := do(t, "stop", "--owner", ""); status != exitError || !strings.Contains(errs, "cannot use --owner with an empty value") {
		t.Errorf("stop --owner: %d, %q", status, errs)
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "jobs")); len(entries) != 0 {
		t.Errorf("a mistake left %v", entries)
	}
}

// What systemd-run says instead of running anything.
func TestToldInstead(t *testing.T) {
	state := alone(t)
	_, version, _ := do(t, "version")
	for _, verb := range []string{"run", "start"} {
		for option, want := range map[string]string{"--version": version, "--job-mode=help": strings.Join(jobModes[:], "\n") + "\n"} {
			if status, out, errs := do(t, verb, option, "false"); status != 0 || out != want || errs != "" {
				t.Errorf("%s %s: status %d, %q, %q", verb, option, status, out, errs)
			}
		}
	}
	if exists(state) {
		t.Error("it left something")
	}
}

// An option that needs no value takes systemd's words for one.
func TestSwitches(t *testing.T) {
	alone(t)
	const none = "NAME  STATE  RESULT  AGE  PID  COMMAND\n"
	for word, want := range map[string]string{
		"1": "[]\n", "yes": "[]\n", "Y": "[]\n", "true": "[]\n", "t": "[]\n", "ON": "[]\n",
		"0": none, "no": none, "N": none, "false": none, "F": none, "off": none,
	} {
		if status, out, errs := do(t, "list", "--json="+word, "--all="+word); status != 0 || out != want || errs != "" {
			t.Errorf("%s: status %d, %q, %q", word, status, out, errs)
		}
	}
	if status, _, errs := do(t, "run", "--pty=no", "--quiet=On", "--pipe=n", "--description=", "--background=", "--isolation", "group", "true"); status != 0 || errs != "" {
		t.Errorf("run: status %d, %q", status, errs)
	}
}

// A value that was given and is empty is a mistake, whatever the option, but for two
// that systemd-run takes as none.
func TestEmptyValues(t *testing.T) {
	state := alone(t)
	checked := 0
	takesValue := regexp.MustCompile(`(?m)^ .*--([a-z-]+) [^ ]`)
	for _, name := range verbs {
		_, help, _ := do(t, name, "--help")
		for _, m := range takesValue.FindAllStringSubmatch(help, -1) {
			option := "--" + m[1]
			if option == "--description" || option == "--background" {
				continue
			}
			args := []string{name, option, "", "true"}
			if name == "list" || name == "doctor" {
				args = args[:3]
			}
			checked++
			status, out, errs := do(t, args...)
			if status != exitError || out != "" || !strings.HasPrefix(errs, "unitward: cannot ") || !strings.Contains(errs, strings.TrimPrefix(option, "--")) {
				t.Errorf("%q: status %d, %q, %q", args, status, out, errs)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d options were tried", checked)
	}
	if exists(state) {
		t.Error("a mistake left something")
	}
}

// Every option of every verb, as the command tree has them, is given values that are
// wrong for most: what it does not take is refused in one line, with hints, and what
// it takes comes to nothing, since there is no such command and no such job.
func TestWrongValues(t *testing.T) {
	state := alone(t)
	plain := regexp.MustCompile(`^unitward: cannot [^\n]+\n(hint: [^\n]+\n)*$`)
	args := map[string][]string{
		"run": {"--isolation", "group", "--", "/no/such/command"}, "start": {"--isolation", "group", "--", "/no/such/command"},
		"list": {}, "reap": {}, "doctor": {"nobody"}, "version": {"nobody"}, "serve": {"nobody"},
	}
	tried := 0
	for verb, command := range (&app{}).verbs() {
		rest, ok := args[verb]
		if !ok {
			rest = []string{"nobody"}
		}
		if verb == "shell" {
			continue // what it is given is the shell's
		}
		command().Flags().VisitAll(func(f *pflag.Flag) {
			values := []string{"nonsense", "-1", "99999999999999999999", "a b\tc\nd", "/dev/null/no/such/place", "\xff\xfe", "1e9", "%n", "a=b", "../x", strings.Repeat("x", 5000)}
			switch {
			case f.Name == "help", f.Name == "watch", f.Name == "report", f.Name == "state-dir":
				return // it takes anything, or goes on
			case f.Value.Type() == "bool":
				values = []string{"maybe", "2", ""}
			}
			for _, value := range values {
				tried++
				// A later option of the same name would take its place.
				given := slices.DeleteFunc(slices.Clone(rest), func(a string) bool { return f.Name == "isolation" && (a == "group" || a == "--isolation") })
				status, out, errs := do(t, append([]string{verb, "--" + f.Name + "=" + value}, given...)...)
				switch {
				case status == 0 && len(rest) == 0: // there is nothing to list or reap
				case status != 125 && status != 127, out != "", !plain.MatchString(errs):
					t.Errorf("%s --%s=%.40q: status %d, %q, %q", verb, f.Name, value, status, out, errs)
				}
			}
		})
	}
	if tried < 800 {
		t.Errorf("only %d values were tried", tried)
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "jobs")); len(entries) != 0 {
		t.Errorf("a mistake left %v", entries)
	}
}

func TestUsageLines(t *testing.T) {
	alone(t)
	for _, verb := range append([]string{"help"}, verbs...) {
		if _, out, _ := do(t, verb, "--help"); strings.Contains(out, "[flags]") || !strings.Contains(out, "\n  unitward "+verb) {
			t.Errorf("%s:\n%s", verb, out)
		}
		if status, out, errs := do(t, "help", verb); status != 0 || errs != "" || !strings.Contains(out, "\n  unitward "+verb) {
			t.Errorf("help %s: %d, %q\n%s", verb, status, errs, out)
		}
	}
	if _, out, _ := do(t, "help"); strings.Contains(out, "[flags]") || !strings.Contains(out, "--version") {
		t.Errorf("help:\n%s", out)
	}
}
