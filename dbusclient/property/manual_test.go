package property

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The manual names every property that is refused, with every value that is
// taken all the same, and what is gone with cgroup v1.
func TestManual(t *testing.T) {
	page, err := os.ReadFile("../../cmd/unitward/manual/unitward-systemd-run.7")
	if os.IsNotExist(err) {
		t.Skip("source: the manual is beside the source alone")
	}
	if err != nil {
		t.Fatal(err)
	}
	section := func(name string) string {
		_, text, _ := strings.Cut(string(page), "\n.Ss "+name+"\n")
		text, _, _ = strings.Cut(text, "\n.Ss ")
		return text
	}
	reserved, leftOut := section("reserved"), section("left-out")
	says := func(text, assignment string) bool {
		return regexp.MustCompile(`(^|\s)` + regexp.QuoteMeta(assignment) + `([\s,.]|$)`).MatchString(text)
	}
	for name := range names {
		if Reserved(name) == nil {
			continue
		}
		if value, ok := fixedValue(name); ok && !says(reserved, name+"="+value) {
			t.Errorf("%s=%s is taken, and the manual does not say so", name, value)
		}
		if strings.HasPrefix(name, "Condition") {
			name = `Condition\&...`
		}
		if !says(reserved, name+"=") {
			t.Errorf("%s is refused, and the manual does not say so", name)
		}
	}
	for name := range strings.FieldsSeq("MemoryLimit CPUShares StartupCPUShares BlockIOAccounting BlockIOWeight StartupBlockIOWeight " +
		"BlockIODeviceWeight BlockIOReadBandwidth BlockIOWriteBandwidth") {
		if replaced(name) == "" || !says(leftOut, name+"=") {
			t.Errorf("%s is gone, and the manual or a hint does not say so", name)
		}
	}
}
