package unit

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEnviron(t *testing.T) {
	for _, c := range []struct {
		name        string
		caller, set []string
		clean       bool
		want        []string
	}{
		{"nothing", nil, nil, false, nil},
		{"order is kept", []string{"B=1", "A=2", "C="}, nil, false, []string{"B=1", "A=2", "C="}},
		{"the first of the caller's counts", []string{"A=1", "B=2", "A=3"}, nil, false, []string{"A=1", "B=2"}},
		{"the last assignment counts", nil, []string{"A=1", "B=2", "A=3"}, false, []string{"A=3", "B=2"}},
		{"an assignment takes the place", []string{"A=1", "B=2"}, []string{"A=3", "C=4"}, false, []string{"A=3", "B=2", "C=4"}},
		{"clean", []string{"A=1", "PATH=/bin"}, []string{"B=2"}, true, []string{"B=2"}},
		{"clean and empty", []string{"A=1"}, nil, true, nil},
		{"a value with an equals sign", []string{"A=b=c"}, []string{"D=e=f"}, false, []string{"A=b=c", "D=e=f"}},
		{"what is no assignment", []string{"A", "", "=x", "B=1"}, nil, false, []string{"B=1"}},
		{"names that no shell can set", []string{"a b=1", "BASH_FUNC_f%%=() { :; }", "\xff=2"}, nil, false,
			[]string{"a b=1", "BASH_FUNC_f%%=() { :; }", "\xff=2"}},
		{"the caller's own unit", []string{
			"NOTIFY_SOCKET=@x", "LISTEN_PID=1", "LISTEN_FDS=3", "LISTEN_FDNAMES=a", "LISTEN_PIDFDID=9",
			"WATCHDOG_PID=1", "WATCHDOG_USEC=2", "JOURNAL_STREAM=8:1", "INVOCATION_ID=i", "SYSTEMD_EXEC_PID=7",
			"MEMORY_PRESSURE_WATCH=/p", "MEMORY_PRESSURE_WRITE=x", "UNITWARD_JOB=outer", "KEEP=1",
		}, nil, false, []string{"KEEP=1"}},
		{"names that only look like it", []string{"LISTEN=1", "NOTIFY_SOCKETS=2", "UNITWARD_STATE_DIR=/s", "MANAGERPID=1"}, nil, false,
			[]string{"LISTEN=1", "NOTIFY_SOCKETS=2", "UNITWARD_STATE_DIR=/s", "MANAGERPID=1"}},
		{"the job's name is the launcher's to give", []string{"A=1"}, []string{"UNITWARD_JOB=x", "B=2"}, false, []string{"A=1", "B=2"}},
		{"what is asked for is given", []string{"NOTIFY_SOCKET=@x"}, []string{"NOTIFY_SOCKET=@y"}, false, []string{"NOTIFY_SOCKET=@y"}},
	} {
		caller, set := slices.Clone(c.caller), slices.Clone(c.set)
		got := Environ(caller, set, c.clean)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: Environ(%q, %q, %v) = %q, want %q", c.name, c.caller, c.set, c.clean, got, c.want)
		}
		if !slices.Equal(caller, c.caller) || !slices.Equal(set, c.set) {
			t.Errorf("%s: Environ changed its arguments", c.name)
		}
	}
}

// getenv is what getenv(3) finds: the first.
func getenv(env []string, name string) (string, bool) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func TestEnvironSaysWhatGetenvSays(t *testing.T) {
	entry := rapid.StringMatching(`[A-D]=[a-z=]{0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		caller := rapid.SliceOf(entry).Draw(t, "caller")
		set := rapid.SliceOf(entry).Draw(t, "set")
		got := Environ(caller, set, false)
		last := slices.Clone(set)
		slices.Reverse(last)
		for _, name := range []string{"A", "B", "C", "D"} {
			want, ok := getenv(last, name)
			if !ok {
				want, ok = getenv(caller, name)
			}
			if v, have := getenv(got, name); v != want || have != ok {
				t.Fatalf("%s is %q, %v; want %q, %v", name, v, have, want, ok)
			}
			if n := len(slices.DeleteFunc(slices.Clone(got), func(kv string) bool { return !strings.HasPrefix(kv, name+"=") })); n > 1 {
				t.Fatalf("%s is there %d times: %q", name, n, got)
			}
		}
	})
}
