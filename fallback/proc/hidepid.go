package proc

import (
	"fmt"
	"os"
	"strings"
)

// Hides reports the option by which processes are hidden from who may not
// trace them (proc(5), "hidepid"), such as "hidepid=invisible"; empty when
// none are.
func (d Dir) Hides() (string, error) {
	b, err := os.ReadFile(string(d) + "/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("cannot see how %s is mounted: %w", d, err)
	}
	return hides(string(b), string(d)), nil
}

// hides takes proc_pid_mountinfo(5). The last mount of a place covers those
// before it.
func hides(mountinfo, place string) string {
	found := ""
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(super) < 3 || fields[4] != place {
			continue
		}
		found = ""
		// A mount's own options before Linux 5.8, the super block's since.
		for option := range strings.SplitSeq(fields[5]+","+super[2], ",") {
			if value, ok := strings.CutPrefix(option, "hidepid="); ok && value != "0" && value != "off" {
				found = option
			}
		}
	}
	return found
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(line)
}
