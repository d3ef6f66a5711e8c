package launch

import (
	"strings"
	"testing"

	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
)

func TestTriggerID(t *testing.T) {
	for _, id := range []triggerID{
		{"a", unit.ManagerUser, property.Timer, unit.Process{PID: 1, StartTime: 2}, "0123abcd"},
		{"a.trigger.b-c@d", unit.ManagerSystem, property.Socket, unit.Process{PID: 4194304, StartTime: 99999999999}, "0123abcd"},
		{strings.Repeat("n", maxTriggerName), unit.ManagerSystem, property.Path, unit.Process{PID: 7, StartTime: 1}, ""},
	} {
		got, ok := parseTriggerID(id.String())
		if !ok || got != id {
			t.Errorf("%s is read as %+v, %v", id, got, ok)
		}
		if n := len(id.String()); n > 255 {
			t.Errorf("%s has %d bytes", id, n)
		}
	}
	for _, other := range []string{
		"", ".trigger.", "0123456789abcdef.handover", "a.trigger.timer", "a.trigger.user.timer.1-2", "a.trigger.root.timer.1-2-a", ".trigger.user.timer.1-2-a",
		"a.trigger.user.timer.01-2-a", "a.trigger.user.timer.x-2-a", "a.trigger.user.timer.1-2-a-b", "a.trigger.user.timer.1-2-a.env",
	} {
		if id, ok := parseTriggerID(other); ok {
			t.Errorf("%q is taken for %+v", other, id)
		}
	}
}

func FuzzTriggerID(f *testing.F) {
	f.Add("a.trigger.user.timer.1-2-0123abcd")
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := parseTriggerID(name); ok && id.String() != name {
			t.Errorf("%q is read as %q", name, id)
		}
	})
}

func TestCutName(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"abc", "abc"}, {"abcdef", "abcde"}, {`a\x2d-b`, `a\x2d`}, {`ab\x2dc`, "ab"}, {`abcd\x2d`, "abcd"}, {`abc\x2dd`, "abc"},
	} {
		if got := cutName(c.name, 5); got != c.want {
			t.Errorf("%s is cut to %s, want %s", c.name, got, c.want)
		}
	}
}
