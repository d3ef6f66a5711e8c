package proc

import (
	"fmt"
	"strings"
)

// maxCgroup bounds the file: some dozen lines with a path each.
const maxCgroup = 64 << 10

// Cgroup is where the process is in the cgroup v2 hierarchy, or in systemd's
// own where that one is not mounted; empty on a host that has neither. The
// error is fs.ErrNotExist when the process is gone.
func (p *Process) Cgroup() (string, error) {
	b, err := p.read("cgroup", maxCgroup)
	if err != nil {
		return "", fmt.Errorf("cannot read the cgroup of process %d: %w", p.PID, err)
	}
	return ParseCgroup(string(b)), nil
}

// ParseCgroup takes the content of /proc/PID/cgroup (cgroups(7)).
func ParseCgroup(s string) string {
	systemd := ""
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(line, "\n")
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return path
		}
		_, rest, _ := strings.Cut(line, ":")
		if path, ok := strings.CutPrefix(rest, "name=systemd:"); ok {
			systemd = path
		}
	}
	return systemd
}

// Below is true when cgroup is top or below it.
func Below(cgroup, top string) bool {
	return cgroup == top || strings.HasPrefix(cgroup, strings.TrimSuffix(top, "/")+"/")
}
