package property_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/unitward/unitward/dbusclient/property"
)

// spans, sizes, shares and limits are texts that look like it.
var (
	spans = texts("0", "1", "7", "20", "1.5", ".5", "3.", "0.000001", "18446744073709551615", "9223372036854775807", "584542", "+", "-", " ", "\t", ".", "infinity",
		"s", "sec", "second", "seconds", "m", "min", "minute", "months", "M", "h", "hr", "hours", "d", "day", "days", "w", "week", "y", "year", "ms", "msec", "us", "usec", "µs", "ns", "x")
	sizes = texts("0", "1", "7", "20", "1.5", ".5", "3.", "0.001", "18446744073709551614", "16777216", "1023", "+", "-", " ", "\t", ".",
		"B", "K", "M", "G", "T", "P", "E", "k", "KB", "x")
	shares = texts("0", "1", "7", "20", "100", "2147483", "21474836", ".", ".5", "+", "-", " ", "\t", "%", "%", "‰", "‱", "x")
	limits = texts("0", "1", "7", "20", "1.5", "infinity", ":", "+", "-", " ", "s", "ms", "us", "min", "day", "x")
)

func texts(parts ...string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 6).Draw(t, "parts"), "")
	})
}

var microseconds = regexp.MustCompile(`(?m)^ +\S*s: (\d+)$`)

// FuzzTimespan holds that what is a span, and how long, is what systemd-analyze
// says.
func FuzzTimespan(f *testing.F) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		f.Skip("rig: needs systemd-analyze")
	}
	for _, s := range []string{"5min 20s", "1y 12month", "2 h", "55s500ms", "300ms20s 5day", "infinity", " infinity ", "12.34.56", "1 .5", "", "0.5us", "1e3",
		"18446744073709", "18446744073708", "18446744073707", "18446744073708.9", "9223372036854775807us", "584554y"} {
		f.Add(s)
	}
	for i := range 150 {
		f.Add(spans.Example(i))
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
			return // no argument, and no value
		}
		if strings.ContainsAny(s, "\v\f") {
			return // systemd's strtoll(3) skips them, and we refuse what no white space of systemd is
		}
		out, err := exec.Command(tool, "timespan", "--", s).Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		theirs := "refused"
		if m := microseconds.FindSubmatch(out); err == nil && m != nil {
			theirs = string(m[1])
		}
		if ours := number(t, "TimeoutStartSec", "TimeoutStartUSec", s); ours != theirs {
			t.Errorf("%q: %s, systemd-analyze says %s", s, ours, theirs)
		}
	})
}

// number is what an assignment comes to: a number, or refused.
func number(t *testing.T, name, onBus, value string) string {
	t.Helper()
	ps, err := property.Convert(name, value)
	if err != nil {
		return "refused"
	}
	v, ok := property.Last(ps, onBus)
	if text := fmt.Sprint(v.Value()); ok && !strings.HasPrefix(text, "[") {
		return text
	} else if list := regexp.MustCompile(`^\[\{\S+ (\d+)\}\]$`).FindStringSubmatch(text); ok && list != nil {
		return list[1] // the number for one path
	}
	t.Fatalf("%s=%q makes %v", name, value, ps)
	return ""
}

// dial is a number that a manager reads from a unit file.
type dial struct {
	name, onBus string
	texts       *rapid.Generator[string]
	// before is what stands before the number, or the path that it is for.
	before string
	// stays is a value that stays where the next one is refused, on the bus.
	stays, staysOnBus string
	// shown turns what systemctl shows into the number on the bus.
	shown func(t *testing.T, value string) string
	// since is the first systemd that reads it as later ones do: 247 knows no ‱, and
	// counts the fraction of a size otherwise.
	since int
}

var dials = []dial{
	{"MemoryLow", "MemoryLow", sizes, "", "7340033", "7340033", infinite, 0},
	{"IOReadBandwidthMax", "IOReadBandwidthMax", sizes, "/dev/null ", "7340033", "7340033", infinite, 248},
	{"CPUQuota", "CPUQuotaPerSecUSec", shares, "", "73%", "730000", span, 248},
	{"TimerSlackNSec", "TimerSlackNSec", spans, "", "7340033", "7340033", slack, 0},
	{"LimitCPU", "LimitCPU", limits, "", "7340033", "7340033", infinite, 0},
}

// infinite is for a number that can be infinity.
func infinite(_ *testing.T, value string) string {
	if value == "infinity" {
		return "18446744073709551615"
	}
	return value
}

// slack is for the slack of timers, of which infinity is shown as what the
// process has.
func slack(t *testing.T, value string) string {
	t.Helper()
	if value == "50000" {
		value = "infinity"
	}
	return infinite(t, value)
}

// span is for one that is shown as a time span.
func span(t *testing.T, value string) string {
	t.Helper()
	return number(t, "TimeoutStartSec", "TimeoutStartUSec", value)
}

// TestRigNumbersLikeTheManager has a manager read numbers of several kinds from
// unit files, each after one that stays where it is refused.
func TestRigNumbersLikeTheManager(t *testing.T) {
	r := newRig(t)
	dir := "/run/systemd/system"
	if r.mode == "--user" {
		dir = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd/user")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var units []string
	t.Cleanup(func() {
		for _, u := range units {
			os.Remove(filepath.Join(dir, u))
		}
		r.reload(t)
	})
	texts := make([][]string, len(dials))
	for i := range 250 {
		u := fmt.Sprintf("%snumber-%03d.service", r.prefix, i)
		units = append(units, u)
		content := "[Service]\nExecStart=/bin/true\n"
		for k, d := range dials {
			s := d.texts.Example(i)
			if strings.TrimSpace(s) == "" {
				s = d.stays // in a file it resets the setting
			}
			texts[k] = append(texts[k], s)
			content += d.name + "=" + d.before + d.stays + "\n" + d.name + "=" + d.before + s + "\n"
		}
		if err := os.WriteFile(filepath.Join(dir, u), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.reload(t)
	args := []string{r.mode, "show"}
	for _, d := range dials {
		args = append(args, "-p", d.onBus)
	}
	out, err := exec.Command("systemctl", slices.Concat(args, []string{"--"}, units)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n\n")
	if len(shown) != len(units) {
		t.Fatalf("%d of %d units are shown", len(shown), len(units))
	}
	taken := make([]int, len(dials))
	for i, block := range shown {
		for k, d := range dials {
			value, ok := "", false
			for l := range strings.Lines(block) {
				if v, found := strings.CutPrefix(strings.TrimSuffix(l, "\n"), d.onBus+"="+d.before); found {
					value, ok = v, true
				}
			}
			if !ok {
				t.Fatalf("%s is not shown: %s", d.onBus, block)
			}
			if d.since > r.version {
				continue
			}
			theirs := d.shown(t, value)
			if theirs == d.staysOnBus && texts[k][i] != d.stays {
				theirs = "refused"
			} else {
				taken[k]++
			}
			if ours := number(t, d.name, d.onBus, d.before+texts[k][i]); ours != theirs {
				t.Errorf("%s=%q: %s, the manager says %s", d.name, texts[k][i], ours, theirs)
			}
		}
	}
	t.Logf("of %d each were taken: %v", len(units), taken)
}

func (r *rig) reload(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("systemctl", r.mode, "daemon-reload").CombinedOutput(); err != nil {
		t.Errorf("cannot reload: %v %s", err, out)
	}
}
