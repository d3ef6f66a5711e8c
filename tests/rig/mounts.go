package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// mount is a line of /proc/self/mountinfo, as far as the rig looks at it.
type mount struct {
	Point string
	Type  string
}

// parseMounts reads mountinfo: fields 1 to 6, optional ones, a lone dash, type.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-")
		if dash < 6 || dash+1 >= len(fields) {
			continue
		}
		out = append(out, mount{Point: unescapeMount(fields[4]), Type: fields[dash+1]})
	}
	return out
}

// unescapeMount undoes the octal escapes that the kernel writes in paths.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func mounts() ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot read the mounts: %w", err)
	}
	return parseMounts(string(b)), nil
}

// mountsUnder lists what is mounted on dir or below it, as this process sees it.
func mountsUnder(dir string) ([]string, error) {
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range all {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			out = append(out, m.Point)
		}
	}
	return out, nil
}

// cgroup2Mount is where the unified hierarchy is; hybrid hosts have it apart
// from /sys/fs/cgroup.
func cgroup2Mount() (string, error) {
	all, err := mounts()
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if m.Type == "cgroup2" {
			return m.Point, nil
		}
	}
	return "", fmt.Errorf("cannot find a cgroup2 mount on this machine")
}
