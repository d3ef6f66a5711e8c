package verify

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSignalNames(t *testing.T) {
	for n := 1; n <= 64; n++ {
		name := SignalName(n)
		if got, ok := SignalNumber(name); !ok || got != n {
			t.Errorf("signal %d is %q, which is %d, %v", n, name, got, ok)
		}
		if known := unix.SignalName(syscall.Signal(n)); known != "" && known != "SIG"+name {
			t.Errorf("signal %d is %q, Go calls it %s", n, name, known)
		}
		if _, err := strconv.Atoi(name); err == nil != (n == 32 || n == 33) {
			t.Errorf("signal %d is called %q", n, name)
		}
	}
	for n, want := range map[int]string{34: "RTMIN", 35: "RTMIN+1", 64: "RTMIN+30", 0: "0", -1: "-1", 65: "65", 128: "128"} {
		if got := SignalName(n); got != want {
			t.Errorf("SignalName(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestSignalNumber(t *testing.T) {
	for s, want := range map[string]int{
		"TERM": 15, "SIGTERM": 15, "15": 15, "KILL": 9, "ABRT": 6, "CHLD": 17, "IO": 29, "SYS": 31, "STKFLT": 16,
		"1": 1, "64": 64, "32": 32, "007": 7,
		"RTMIN": 34, "SIGRTMIN": 34, "RTMAX": 64, "SIGRTMAX": 64,
		"RTMIN+0": 34, "RTMIN+1": 35, "SIGRTMIN+30": 64, "RTMAX-0": 64, "RTMAX-30": 34,
	} {
		if got, ok := SignalNumber(s); !ok || got != want {
			t.Errorf("SignalNumber(%q) is %d, %v, want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"", "SIG", "0", "65", "255", "256", "18446744073709551617", "-1", "+15", "1.0", " 15", "15 ", "15\n", "0x0f", "1_5",
		"term", "sigterm", "Term", "SIGSIGTERM", "SIG15", "TERM ", "NOSUCH", "UNKNOWN",
		"RTMIN+31", "RTMIN+127", "RTMIN+128", "RTMIN-1", "RTMIN+", "RTMIN++1", "RTMIN+-1", "RTMIN+ 1",
		"RTMAX-31", "RTMAX+1", "RTMAX-", "RTMAX--1", "RTMINX", "RTMAXX",
	} {
		if got, ok := SignalNumber(s); ok || got != 0 {
			t.Errorf("SignalNumber(%q) is %d, %v, want none", s, got, ok)
		}
	}
}

func FuzzSignalNumber(f *testing.F) {
	for _, s := range []string{"TERM", "SIGKILL", "9", "RTMIN+3", "RTMAX-3", "SIGRTMIN", "", "SIG", "300", "RTMIN+-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := SignalNumber(s)
		if want := namesSignal(s) || decimal(s, 1, 64); ok != want {
			t.Fatalf("SignalNumber(%q) is %d, %v, want %v", s, n, ok, want)
		}
		if !ok {
			if n != 0 {
				t.Fatalf("SignalNumber(%q) is no signal and yet %d", s, n)
			}
			return
		}
		if n < 1 || n > 64 {
			t.Fatalf("SignalNumber(%q) is %d", s, n)
		}
		name := SignalName(n)
		if again, ok := SignalNumber(name); !ok || again != n {
			t.Fatalf("%q is %d is %q is %d, %v", s, n, name, again, ok)
		}
		if _, err := strconv.Atoi(name); err != nil && !strings.HasPrefix(s, "SIG") {
			if again, ok := SignalNumber("SIG" + name); !ok || again != n {
				t.Fatalf("SIG%s is %d, %v", name, again, ok)
			}
		}
	})
}

func FuzzSignalName(f *testing.F) {
	for _, n := range []int{-1, 0, 1, 15, 31, 32, 33, 34, 64, 65, 1 << 40} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int) {
		got, ok := SignalNumber(SignalName(n))
		if possible := n >= 1 && n <= 64; ok != possible || possible && got != n {
			t.Fatalf("signal %d is %q, which is %d, %v", n, SignalName(n), got, ok)
		}
	})
}
