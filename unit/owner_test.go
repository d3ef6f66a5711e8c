package unit

import (
	"strings"
	"testing"
)

func TestIsOwnerUnit(t *testing.T) {
	for s, want := range map[string]bool{
		"session-2.scope": true, "user@1000.service": true, "ssh.service": true, "user-1000.slice": true, "-.slice": true,
		`dev-disk-by\x2duuid.swap`: true, "a.b.socket": true, "-.mount": true,
		"": false, ".service": false, "@.service": false, "@a.service": false, "service": false, "multi-user.target": false, "a.timer": false,
		"a b.service": false, "a/b.service": false, "../x.service": false, "a\x00.service": false, "é.service": false, "a.service\n": false,
		strings.Repeat("a", 247) + ".service": true, strings.Repeat("a", 248) + ".service": false,
	} {
		if got := IsOwnerUnit(s); got != want {
			t.Errorf("IsOwnerUnit(%q) = %v", s, got)
		}
	}
}

func FuzzIsOwnerUnit(f *testing.F) {
	for _, s := range []string{"a.service", "@.scope", "..slice"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if IsOwnerUnit(s) && (len(s) > maxUnitName || strings.ContainsAny(s, "/ \x00\n") || !strings.Contains(s, ".")) {
			t.Errorf("%q is taken for the name of a unit", s)
		}
	})
}
