package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What a command leaves behind ends by itself, or stays. Who watches for the
// command's end hears of it a little later; a guard for which a manager was
// asked waits a minute for its scope (unit/keeper, Expect).
const (
	leftEnds   = 5 * time.Second
	guardsEnd  = 65 * time.Second
	guardsName = "unitward-guard"
)

// left waits for the processes in c to end by themselves, and describes those
// that do not.
func (c cgroup) left() []string {
	return describe(staying(c.members, func(pid int) bool {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err != nil || strings.TrimSpace(string(name)) == guardsName
	}))
}

// staying waits for what find finds to go by itself, and returns what does not. guard
// is true for what is a guard, or of one.
func staying[T any](find func() []T, guard func(T) bool) []T {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left := find()
		patience := guardsEnd
		if slices.ContainsFunc(left, func(one T) bool { return !guard(one) }) {
			patience = leftEnds
		}
		if len(left) == 0 || time.Since(began) > patience {
			return left
		}
	}
}

// ofTest finds the test that something was made for: its directories have its
// name.
var ofTest = regexp.MustCompile(`/(Test[A-Za-z0-9_]+?)[0-9]*/[0-9]{3}`)

// describe says what processes are, a line each: their command lines, states and
// directories, and the test they are of, where that can be seen. One that has
// ended by now is not there.
func describe(pids []int) []string {
	var out []string
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/", pid)
		status, err := os.ReadFile(dir + "status")
		if err != nil {
			continue
		}
		argv, _ := os.ReadFile(dir + "cmdline")
		environ, _ := os.ReadFile(dir + "environ")
		at, _ := os.Readlink(dir + "cwd")
		stdout, _ := os.Readlink(dir + "fd/1")
		job := "none"
		for kv := range strings.SplitSeq(string(environ), "\x00") {
			if name, ok := strings.CutPrefix(kv, "UNITWARD_JOB="); ok {
				job = name
			}
		}
		test := "no test that could be seen"
		if m := ofTest.FindStringSubmatch(strings.Join([]string{string(argv), string(environ), at, stdout}, "\n")); m != nil {
			test = m[1]
		}
		out = append(out, fmt.Sprintf("%s (%s, pid %d, state %s, parent %s, in %s, job %s) of %s", bytes.ReplaceAll(bytes.TrimRight(argv, "\x00"), []byte{0}, []byte{' '}),
			field(status, "Name"), pid, field(status, "State"), field(status, "PPid"), at, job, test))
	}
	return out
}

// field is one of /proc/PID/status.
func field(status []byte, name string) string {
	_, rest, _ := strings.Cut("\n"+string(status), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
