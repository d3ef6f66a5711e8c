package property_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
)

func TestSignature(t *testing.T) {
	if got, err := dbus.SignatureOf([]property.Property{}); got != "a(sv)" || err != nil {
		t.Errorf("[]Property is %s on the bus", got)
	}
}

func TestParseErrors(t *testing.T) {
	for assignment, want := range map[string]string{
		"MemoryMax=12Q":       `cannot set property MemoryMax="12Q": expected a size such as 512M, a percentage such as 50%, or infinity`,
		"MemoryMax":           `cannot set property "MemoryMax": expected NAME=VALUE, such as MemoryMax=512M`,
		"=5":                  `cannot set property "=5": expected NAME=VALUE, such as MemoryMax=512M`,
		"MemoryMaxx=5":        `cannot set property MemoryMaxx: systemd has no such property of a service`,
		"Memory\nMax=5":       `cannot set property "Memory\nMax": systemd has no such property of a service`,
		"KillMode=process":    `cannot set property KillMode: a stop must reach every process of the job`,
		"Description=a\xffb":  `cannot set property Description="a\xffb": expected valid UTF-8 without NUL`,
		"Description=a\x00b":  `cannot set property Description="a\x00b": expected valid UTF-8 without NUL`,
		"ProtectSystem=maybe": `cannot set property ProtectSystem="maybe": expected yes, no, full or strict`,
		"DevicePolicy=x":      `cannot set property DevicePolicy="x": expected auto, closed or strict`,
		"PrivateTmp=x":        `cannot set property PrivateTmp="x": expected yes, no or disconnected`,
	} {
		_, err := property.Parse(assignment)
		if err == nil || err.Error() != want {
			t.Errorf("Parse(%q):\n got %v\nwant %s", assignment, err, want)
		}
		if !errors.Is(err, unit.ErrUsage) {
			t.Errorf("Parse(%q): %v does not match unit.ErrUsage", assignment, err)
		}
	}
	for assignment, want := range map[string]string{
		"MemoryMaxx=5":     "did you mean MemoryMax?",
		"KillMode=process": "to let some live on, use --leftovers keep",
		"Environment=A=b":  "use -E NAME=VALUE",
		"Zebra=1":          "known are those of systemd.exec(5)",
	} {
		_, err := property.Parse(assignment)
		var h interface{ Hint() []string }
		if !errors.As(err, &h) || len(h.Hint()) != 1 || !strings.HasPrefix(h.Hint()[0], want) {
			t.Errorf("Parse(%q): %v has not the hint %q", assignment, err, want)
		}
	}
}

func TestParseAll(t *testing.T) {
	ps, err := property.ParseAll([]string{"MemoryMax=1K", "Nice=5", "MemoryMax=2K"})
	if err != nil || describe(ps) != "MemoryMax t 1024; Nice i 5; MemoryMax t 2048" {
		t.Errorf("ParseAll = %s, %v", describe(ps), err)
	}
	if v, ok := property.Last(ps, "MemoryMax"); !ok || v.Value() != uint64(2048) {
		t.Errorf("Last(MemoryMax) = %v, %v", v, ok)
	}
	if v, ok := property.Last(ps, "Slice"); ok {
		t.Errorf("Last(Slice) = %v", v)
	}
	ps, err = property.ParseAll([]string{"Nice=5", "Nice=50", "x"})
	var e *property.ValueError
	if ps != nil || !errors.As(err, &e) || e.Value != "50" {
		t.Errorf("ParseAll with a wrong value = %v, %v", ps, err)
	}
	if ps, err = property.ParseAll(nil); ps != nil || err != nil {
		t.Errorf("ParseAll(nil) = %v, %v", ps, err)
	}
}

// describe writes properties as NAME SIGNATURE VALUE.
func describe(ps []property.Property) string {
	var all []string
	for _, p := range ps {
		all = append(all, fmt.Sprintf("%s %s %v", p.Name, p.Value.Signature(), p.Value.Value()))
	}
	return strings.Join(all, "; ")
}

func TestConvert(t *testing.T) {
	for _, table := range [][]converted{numbers, times, lists, structures} {
		testConverted(t, property.Service, table)
	}
	for unit, table := range triggered {
		testConverted(t, unit, table)
	}
}

func testConverted(t *testing.T, unit string, table []converted) {
	t.Helper()
	for _, x := range table {
		ps, err := property.ConvertIn(unit, x.assignment)
		if err != nil || describe(ps) != x.want {
			t.Errorf("%s of a %s:\n got %s %v\nwant %s", x.assignment, unit, describe(ps), err, x.want)
		}
	}
}

// A wrong value of each syntax: one error that names the property, the value
// and what is expected.
func TestWrong(t *testing.T) {
	for unit, assignments := range wrong {
		for _, assignment := range assignments {
			name, value, _ := strings.Cut(assignment, "=")
			ps, err := property.ConvertIn(unit, assignment)
			var e *property.ValueError
			if !errors.As(err, &e) || ps != nil {
				t.Errorf("%s of a %s = %s, %v, want a *ValueError", assignment, unit, describe(ps), err)
				continue
			}
			if e.Name != name || e.Value != value || e.Expected == "" {
				t.Errorf("%s of a %s: %+v", assignment, unit, e)
			}
			for _, part := range []string{name, fmt.Sprintf("%q", value), e.Expected} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s of a %s: %v, which does not say %s", assignment, unit, err, part)
				}
			}
		}
	}
}

// Every syntax that can refuse a value has one in wrong.
func TestWrongIsComplete(t *testing.T) {
	refusing := map[string]bool{}
	for unit, assignments := range wrong {
		for _, assignment := range assignments {
			name, _, _ := strings.Cut(assignment, "=")
			refusing[property.Expectation(unit, name)] = true
		}
	}
	var anything []string
	for _, name := range []string{"Description", "AppArmorProfile", "StandardInput", "LogFilterPatterns"} {
		anything = append(anything, property.Expectation(property.Service, name))
	}
	for _, unit := range property.Types {
		for _, name := range property.Names(unit) {
			if e := property.Expectation(unit, name); !refusing[e] && !slices.Contains(anything, e) {
				t.Errorf("no wrong value is tested for %s of a %s: %s", name, unit, e)
			}
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := property.ParseAll([]string{"MemoryMax=512M", "WantsMountsFor=/tmp", "CPUQuota=50%", "ConditionUser=root"}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestExecutes(t *testing.T) {
	for name, want := range map[string]bool{
		"ProtectHome": true, "WorkingDirectory": true, "CPUAffinity": true, "SupplementaryGroups": true,
		"MemoryMax": false, "After": false, "SuccessExitStatus": false, "": false, "NoSuchProperty": false,
	} {
		if got := property.Executes(name); got != want {
			t.Errorf("Executes(%q) = %v", name, got)
		}
	}
}
