package unit

import "strings"

// JobVariable is the variable by which a job knows its own name.
const JobVariable = "UNITWARD_JOB"

// Environ is the environment of a job: the caller's, or nothing where clean
// is set, with the assignments in set on top, but without JobVariable, which
// is the launcher's to add. What systemd told the caller about the caller's own
// unit is not the job's (OfUnit). Of a repeated name the first counts, as for
// getenv(3); of a repeated assignment the last.
func Environ(caller, set []string, clean bool) []string {
	seen := make(map[string]int, len(caller)+len(set))
	out := make([]string, 0, len(caller)+len(set)+1)
	if !clean {
		for _, kv := range caller {
			name, _, ok := strings.Cut(kv, "=")
			if _, again := seen[name]; !ok || name == "" || again || name == JobVariable || OfUnit(name) {
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

// OfUnit is true for the variables by which systemd tells a process of its own unit,
// or of itself there (systemd.exec(5), "Environment Variables in Spawned Processes").
func OfUnit(name string) bool {
	switch name {
	case "INVOCATION_ID", "SYSTEMD_EXEC_PID", "JOURNAL_STREAM", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE",
		"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC":
		return true
	}
	return false
}
