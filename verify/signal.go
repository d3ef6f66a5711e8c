package verify

import (
	"strconv"
	"strings"
)

// signalNames are the standard signals by number, as systemd writes them in
// $EXIT_STATUS and as kill(1) takes them (signal(7), x86 and arm numbering).
var signalNames = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE",
	9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM",
	16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU",
	23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO",
	30: "PWR", 31: "SYS",
}

// Real-time signals as glibc numbers them: 32 and 33 are its own.
const (
	sigRTMin = 34
	sigRTMax = 64
	sigKill  = 9
)

// SignalName returns the name of a signal without "SIG", such as "TERM" or
// "RTMIN+2", or its number in decimal when it has no name.
func SignalName(n int) string {
	switch {
	case n > 0 && n < len(signalNames):
		return signalNames[n]
	case n == sigRTMin:
		return "RTMIN"
	case n > sigRTMin && n <= sigRTMax:
		return "RTMIN+" + strconv.Itoa(n-sigRTMin)
	}
	return strconv.Itoa(n)
}

// SignalNumber is the reverse of SignalName. It takes a name with or without
// "SIG" in upper case, RTMIN+n, RTMAX-n, or a number from 1 to 64, and reports
// false for anything else.
func SignalNumber(s string) (int, bool) {
	if n, err := strconv.ParseUint(s, 10, 8); err == nil {
		return inRange(int(n), 1)
	}
	name := strings.TrimPrefix(s, "SIG")
	for n, have := range signalNames {
		if n > 0 && have == name {
			return n, true
		}
	}
	base, offset := 0, ""
	switch {
	case name == "RTMIN":
		return sigRTMin, true
	case name == "RTMAX":
		return sigRTMax, true
	case strings.HasPrefix(name, "RTMIN+"):
		base, offset = sigRTMin, name[len("RTMIN"):]
	case strings.HasPrefix(name, "RTMAX-"):
		base, offset = sigRTMax, name[len("RTMAX"):]
	default:
		return 0, false
	}
	n, err := strconv.ParseInt(offset, 10, 8)
	if err != nil {
		return 0, false
	}
	return inRange(base+int(n), sigRTMin)
}

func inRange(n, least int) (int, bool) {
	if n < least || n > sigRTMax {
		return 0, false
	}
	return n, true
}
