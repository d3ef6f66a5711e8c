package property_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/unitward/unitward/dbusclient/property"
)

// spans and sizes are texts that look like it.
var (
	spans = texts("0", "1", "7", "20", "1.5", ".5", "3.", "0.000001", "18446744073709551615", "9223372036854775807", "584542", "+", "-", " ", "\t", ".", "infinity",
		"s", "sec", "second", "seconds", "m", "min", "minute", "months", "M", "h", "hr", "hours", "d", "day", "days", "w", "week", "y", "year", "ms", "msec", "us", "usec", "µs", "ns", "x")
	sizes = texts("0", "1", "7", "20", "1.5", ".5", "3.", "0.001", "18446744073709551614", "16777216", "1023", "+", "-", " ", "\t", ".",
		"B", "K", "M", "G", "T", "P", "E", "k", "KB", "x")
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
	n, isNumber := v.Value().(uint64)
	if !ok || !isNumber {
		t.Fatalf("%s=%q makes %v", name, value, ps)
	}
	return strconv.FormatUint(n, 10)
}

// TestRigSizesLikeTheManager has a manager read sizes from unit files, each after
// one that stays where it is refused.
func TestRigSizesLikeTheManager(t *testing.T) {
	r := newRig(t)
	const stays = "7340033"
	dir := "/run/systemd/system"
	if r.mode == "--user" {
		dir = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd/user")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var texts, units []string
	t.Cleanup(func() {
		for _, u := range units {
			os.Remove(filepath.Join(dir, u))
		}
		r.reload(t)
	})
	for i := range 400 {
		s := sizes.Example(i)
		if strings.TrimSpace(s) == "" {
			continue // in a file it resets the setting
		}
		u := fmt.Sprintf("%ssize-%03d.service", r.prefix, i)
		texts, units = append(texts, s), append(units, u)
		content := "[Service]\nExecStart=/bin/true\nMemoryLow=" + stays + "\nMemoryLow=" + s + "\n"
		if err := os.WriteFile(filepath.Join(dir, u), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.reload(t)
	out, err := exec.Command("systemctl", append([]string{r.mode, "show", "-p", "MemoryLow", "--"}, units...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n\n")
	if len(shown) != len(units) {
		t.Fatalf("%d of %d units are shown", len(shown), len(units))
	}
	taken := 0
	for i, line := range shown {
		theirs := strings.TrimPrefix(line, "MemoryLow=")
		switch theirs {
		case stays:
			theirs = "refused"
		case "infinity":
			theirs = "18446744073709551615"
			taken++
		default:
			taken++
		}
		if ours := number(t, "MemoryLow", "MemoryLow", texts[i]); ours != theirs {
			t.Errorf("%q: %s, the manager says %s", texts[i], ours, theirs)
		}
	}
	t.Logf("%d of %d sizes were taken", taken, len(units))
}

func (r *rig) reload(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("systemctl", r.mode, "daemon-reload").CombinedOutput(); err != nil {
		t.Errorf("cannot reload: %v %s", err, out)
	}
}
