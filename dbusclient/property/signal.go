package property

import "strings"

// The names of the signals by number, from 1 (signal(7), x86 and arm; the
// manager runs on this machine).
const signalNames = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT " +
	"CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"

// glibc keeps 32 and 33 to itself; systemd counts from its SIGRTMIN.
const (
	sigRTMin = 34
	sigRTMax = 64
)

// signal reads a signal by number or name, with or without SIG.
func signal(s string) (int32, bool) {
	if n, ok := parseSigned(s, 32); ok {
		return int32(n), n >= 1 && n <= sigRTMax
	}
	s = strings.TrimPrefix(s, "SIG")
	n := int32(1)
	for name := range strings.FieldsSeq(signalNames) {
		if name == s {
			return n, true
		}
		n++
	}
	offset, base := "", int64(0)
	switch {
	case strings.HasPrefix(s, "RTMIN"):
		offset, base = s[len("RTMIN"):], sigRTMin
	case strings.HasPrefix(s, "RTMAX"):
		offset, base = s[len("RTMAX"):], sigRTMax
	default:
		return 0, false
	}
	if offset == "" {
		return int32(base), true
	}
	// RTMIN counts up, RTMAX counts down.
	d, ok := parseSigned(offset, 32)
	if (offset[0] == '+') != (base == sigRTMin) || (offset[0] == '-') != (base == sigRTMax) {
		return 0, false
	}
	return int32(base + d), ok && base+d >= sigRTMin && base+d <= sigRTMax
}

var signalSyntax = syntax{sig: "i", parse: parseSignal, expected: "a signal such as SIGTERM, INT, RTMIN+3 or 15"}

func parseSignal(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := signal(value)
	return one(name, n), ok
}

type exitSet struct{ Codes, Signals []int32 }

var exitSetSyntax = syntax{
	sig: "(aiai)", parse: parseExitSet,
	expected: "exit codes and signals such as 1 TEMPFAIL SIGKILL",
}

func parseExitSet(_ *syntax, name, value string) ([]Property, bool) {
	set := exitSet{[]int32{}, []int32{}}
	ws, ok := words(value, unquote)
	for _, w := range ws {
		// A bare number is a code, never a signal.
		if n, ok := exitCode(w); ok {
			set.Codes = append(set.Codes, n)
		} else if n, ok := signal(w); ok {
			set.Signals = append(set.Signals, n)
		} else {
			return nil, false
		}
	}
	return one(name, set), ok
}

// exitCode reads a code by number or by one of the names that `systemd-analyze
// exit-status` lists.
func exitCode(s string) (int32, bool) {
	if n, ok := parseUnsigned(s, 8); ok {
		return int32(n), true
	}
	for _, block := range [...]struct {
		first int32
		names string
	}{
		{0, "SUCCESS FAILURE INVALIDARGUMENT NOTIMPLEMENTED NOPERMISSION NOTINSTALLED NOTCONFIGURED NOTRUNNING"},
		{64, "USAGE DATAERR NOINPUT NOUSER NOHOST UNAVAILABLE SOFTWARE OSERR OSFILE CANTCREAT IOERR TEMPFAIL PROTOCOL NOPERM CONFIG"},
		{200, "CHDIR NICE FDS EXEC MEMORY LIMITS OOM_ADJUST SIGNAL_MASK STDIN STDOUT CHROOT IOPRIO TIMERSLACK SECUREBITS " +
			"SETSCHEDULER CPUAFFINITY GROUP USER CAPABILITIES CGROUP SETSID CONFIRM STDERR"},
		{224, "PAM NETWORK NAMESPACE NO_NEW_PRIVILEGES SECCOMP SELINUX_CONTEXT PERSONALITY APPARMOR ADDRESS_FAMILIES RUNTIME_DIRECTORY"},
		{235, "CHOWN SMACK_PROCESS_LABEL KEYRING STATE_DIRECTORY CACHE_DIRECTORY LOGS_DIRECTORY CONFIGURATION_DIRECTORY " +
			"NUMA_POLICY CREDENTIALS BPF KSM MEMORY_THP"},
		{255, "EXCEPTION"},
	} {
		n := block.first
		for name := range strings.FieldsSeq(block.names) {
			if name == s {
				return n, true
			}
			n++
		}
	}
	return 0, false
}
