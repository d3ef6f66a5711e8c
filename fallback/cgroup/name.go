package cgroup

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxName is NAME_MAX, which holds for cgroups too.
const maxName = 255

// controllers are those of Linux 6.18 (include/linux/cgroup_subsys.h).
var controllers = []string{
	"blkio", "cpu", "cpuacct", "cpuset", "debug", "devices", "dmem", "freezer", "hugetlb", "io", "irq",
	"memory", "misc", "net_cls", "net_prio", "perf_event", "pids", "rdma",
}

// DirName is the name of the directory of the unit that is called name. It is
// the same, but for a "_" before what the kernel could take for one of its own
// files, such as memory.max, or what has that "_" already: as systemd does it
// (cg_escape). It fails for what can be no name of a directory: an empty one,
// "." and "..", one with "/", NUL or a newline (the kernel refuses that one so
// that /proc/PID/cgroup can be read), and one of more than 255 bytes.
func DirName(name string) (string, error) {
	switch {
	case name == "", name == ".", name == "..":
		return "", fmt.Errorf("cannot name a cgroup %q", name)
	case strings.ContainsAny(name, "/\x00\n"):
		return "", fmt.Errorf("cannot name a cgroup %q: it has a slash, a NUL or a newline", name)
	}
	first, _, dotted := strings.Cut(name, ".")
	switch {
	case name[0] == '_',
		dotted && (first == "cgroup" || slices.Contains(controllers, first)),
		name == "tasks", name == "notify_on_release", name == "release_agent":
		name = "_" + name
	}
	if len(name) > maxName {
		return "", fmt.Errorf("cannot name a cgroup with %d bytes: %d are the most", len(name), maxName)
	}
	return name, nil
}

// ancestor is the deepest cgroup that holds both.
func ancestor(a, b string) string {
	for ; !below(b, a); a = path.Dir(a) {
	}
	return a
}

// below is true when the cgroup is the top or somewhere below it.
func below(cgroup, top string) bool {
	return top == "/" || cgroup == top || strings.HasPrefix(cgroup, top+"/")
}

// parseOwn takes the cgroup v2 line of proc_pid_cgroup(5).
func parseOwn(s string) (string, bool) {
	for line := range strings.Lines(s) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok && path.IsAbs(p) {
			return p, true
		}
	}
	return "", false
}

// systemdUnit is the innermost systemd unit to which a cgroup belongs, by its
// path; empty when there is none.
func systemdUnit(cgroup string) string {
	for p := cgroup; p != "/" && p != "."; p = path.Dir(p) {
		switch path.Ext(p) {
		case ".service", ".scope", ".slice", ".socket", ".mount", ".swap":
			return p
		}
	}
	return ""
}
