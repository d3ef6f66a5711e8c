package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
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
	began := time.Now()
	for {
		pids := c.members()
		if len(pids) == 0 {
			return nil
		}
		patience := guardsEnd
		for _, pid := range pids {
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) != guardsName {
				patience = leftEnds
			}
		}
		if time.Since(began) > patience {
			return describe(pids)
		}
		time.Sleep(20 * time.Millisecond)
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
