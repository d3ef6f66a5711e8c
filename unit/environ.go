package unit

import "strings"

// JobVariable is the variable by which a job knows its own name.
const JobVariable = "UNITWARD_JOB"

// Environ is the environment of a job: the caller's, or nothing where clean
// is set, with the assignments in set on top, but without JobVariable, which
// is the launcher's to add. What systemd told the caller
// about the caller's own unit is not the job's (sd_notify(3),
// sd_listen_fds(3)). Of a repeated name the first counts, as for getenv(3); of
// a repeated assignment the last.
func Environ(caller, set []string, clean bool) []string {
	seen := make(map[string]int, len(caller)+len(set))
	out := make([]string, 0, len(caller)+len(set)+1)
	if !clean {
		for _, kv := range caller {
			name, _, ok := strings.Cut(kv, "=")
			if _, again := seen[name]; !ok || name == "" || again || isOwnUnits(name) {
				continue
			}
			seen[name] = len(out)
			out = append(out, kv)
		}
	}
	for _, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		if name == JobVariable {
			continue
		}
		if i, ok := seen[name]; ok {
			out[i] = kv
			continue
		}
		seen[name] = len(out)
		out = append(out, kv)
	}
	return out
}

func isOwnUnits(name string) bool {
	switch name {
	case "NOTIFY_SOCKET", "JOURNAL_STREAM", "WATCHDOG_PID", "WATCHDOG_USEC",
		"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", JobVariable:
		return true
	}
	return false
}
