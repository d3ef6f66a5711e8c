package property_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/unitward/unitward/dbusclient/property"
)

func TestComplete(t *testing.T) {
	timer := func(s string) []string { return property.CompleteTrigger(property.Timer, s) }
	socket := func(s string) []string { return property.CompleteTrigger(property.Socket, s) }
	for _, c := range []struct {
		complete func(string) []string
		start    string
		want     string
	}{
		{property.Complete, "MemoryM", "MemoryMax= MemoryMin="},
		{property.Complete, "KillMo", ""},
		{property.Complete, "Nonsense=", ""},
		{property.Complete, "MemoryMax=", ""},
		{property.Complete, "ProtectSystem=s", "ProtectSystem=strict"},
		{property.Complete, "OOMPolicy=", "OOMPolicy=continue OOMPolicy=kill OOMPolicy=stop"},
		{property.Complete, "NoNewPrivileges=", "NoNewPrivileges=no NoNewPrivileges=yes"},
		{timer, "Wake", "WakeSystem="},
		{timer, "MemoryM", ""},
		{socket, "ListenSt", "ListenStream="},
		{socket, "MemoryMa", "MemoryMax="},
	} {
		if got := strings.Join(c.complete(c.start), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.start, got, c.want)
		}
	}
	// What is proposed is taken.
	for _, name := range property.Complete("") {
		name = strings.TrimSuffix(name, "=")
		for _, assignment := range property.Complete(name + "=") {
			if _, err := property.Parse(assignment); err != nil {
				t.Errorf("%s is proposed: %v", assignment, err)
			}
		}
		if property.Reserved(name) != nil {
			t.Errorf("%s is proposed, and is not for users", name)
		}
	}
	if all := property.Complete(""); !slices.IsSorted(all) || len(all) < 150 {
		t.Errorf("%d names, or not in order", len(all))
	}
}
