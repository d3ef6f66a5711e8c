package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runVM boots an emulated machine and runs the tests that are for it, as each
// user. What they print comes back between marks.
func runVM(ctx context.Context, t Target, st *stage, o options) ([]testRun, error) {
	var binaries []testBinary
	for _, b := range st.Binaries {
		if slices.Contains(vmPackages, b.Dir) {
			binaries = append(binaries, b)
		}
	}
	if len(binaries) == 0 {
		return nil, fmt.Errorf("cannot test in an emulated machine: %s have no tests", strings.Join(vmPackages, " and "))
	}
	mark := "rig-mark-" + nonce()
	path := filepath.Join(o.out, t.Name, t.log())
	log, err := createLog(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	start := time.Now()
	vm := VM{
		Suite: t.Suite, Script: vmTestScript(binaries, t, st, o, mark), Add: map[string]string{inside: st.Dir},
		KernelArgs: t.Hierarchy.kernelArgs(), Timeout: o.timeout + 2*time.Minute,
	}
	_, err = vm.Run(ctx, log)
	if err != nil {
		return nil, err
	}
	out, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	runs, err := splitRuns(string(out), mark, binaries)
	for i := range runs {
		runs[i].Where = "vm " + t.String()
		runs[i].Log = path
	}
	if len(runs) > 0 {
		runs[0].Took = time.Since(start) // of the whole machine
	}
	return runs, err
}

// noVMTests says why no emulated machine need be booted.
func noVMTests(ctx context.Context, st *stage, o options) error {
	run := cmp.Or(o.vmRun, machineTests)
	top, _, _ := strings.Cut(run, "/")
	for _, pkg := range vmPackages {
		binary := filepath.Join(st.Dir, pkg, "rig.test")
		if _, err := os.Stat(binary); err != nil {
			continue // not one of those that were asked for
		}
		out, err := exec.CommandContext(ctx, binary, "-test.list="+top).Output()
		if err != nil {
			return fmt.Errorf("cannot list the tests of %s: %w", pkg, err)
		}
		if len(bytes.TrimSpace(out)) > 0 {
			return nil
		}
	}
	return fmt.Errorf("no test of %s matches %s", strings.Join(vmPackages, " or "), run)
}

// vmPackages have the tests for emulated machines.
var vmPackages = []string{"tests/e2e", "fallback/cgroup"}

func vmTestScript(binaries []testBinary, t Target, st *stage, o options, mark string) string {
	plain := *st
	plain.Cover = false // nothing carries the data out
	run := cmp.Or(o.vmRun, t.tests())
	args := testArgs(&plain, o, run)
	if skips := t.skips(); skips != "" && o.vmRun == "" {
		args = append(args, "-test.skip="+skips)
	}
	var b strings.Builder
	b.WriteString("#!/bin/sh\nfailed=0\n")
	for _, user := range users {
		for _, bin := range binaries {
			env := append(userEnv(user), testEnv(&plain, "UNITWARD_VM="+string(t.Hierarchy), "UNITWARD_TEST_USER_RUN="+run)...)
			words := append([]string{"env", "-i"}, env...)
			if user != "root" {
				words = append(words, "setpriv", "--reuid="+user, "--regid="+user, "--init-groups")
			}
			words = append(append(words, bin.file()), args...)
			fmt.Fprintf(&b, "cd %s\nprintf '\\n%s begin %s %s\\n'\n", bin.in(), mark, user, bin.Dir)
			fmt.Fprintf(&b, "%s 2>&1\nstatus=$?\n[ $status = 0 ] || failed=1\nprintf '\\n%s end %%s\\n' $status\n", quoteAll(words), mark)
		}
	}
	b.WriteString("[ $failed = 0 ] || journalctl -b --no-pager -o short-precise\nexit $failed\n")
	return b.String()
}

// quoteAll writes words for a shell.
func quoteAll(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(out, " ")
}

// splitRuns finds the runs of the test binaries in a machine's output.
func splitRuns(out, mark string, binaries []testBinary) ([]testRun, error) {
	var runs []testRun
	for _, part := range strings.Split(out, "\n"+mark+" begin ")[1:] {
		head, rest, _ := strings.Cut(part, "\n")
		user, dir, _ := strings.Cut(head, " ")
		body, after, ended := strings.Cut(rest, "\n"+mark+" end ")
		r := testRun{User: user, Package: dir}
		pkg := dir
		for _, b := range binaries {
			if b.Dir == dir {
				pkg = b.Package
			}
		}
		conv, err := newConverter(pkg, io.Discard)
		if err != nil {
			return runs, err
		}
		_, err = io.Copy(conv, bytes.NewReader([]byte(body)))
		code := -1
		if status, _, _ := strings.Cut(after, "\n"); ended && err == nil {
			code, err = strconv.Atoi(strings.TrimSpace(status))
		}
		r.finish(conv, code, err)
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("cannot find a test's output in what the machine said")
	}
	return runs, nil
}
