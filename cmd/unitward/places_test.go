package main

import (
	"fmt"
	"testing"

	"github.com/unitward/unitward/unit"
)

func TestPlaces(t *testing.T) {
	service := unit.Identity{Isolation: "service", Unit: "x.service", Manager: unit.ManagerUser}
	scope := unit.Identity{Isolation: "scope", Unit: "x.scope", Manager: unit.ManagerSystem}
	for _, c := range []struct {
		id     unit.Identity
		output unit.Output
		state  unit.State
		want   string
	}{
		{service, unit.OutputCapture, unit.StateRunning, "[{output unitward logs x} {journal journalctl --user -u x.service} {systemd systemctl --user status x.service}]"},
		{service, unit.OutputJournal, unit.StateSettled, "[{journal journalctl --user -u x.service}]"},
		{scope, unit.OutputInherit, unit.StateRunning, "[{journal journalctl -u x.scope} {systemd systemctl status x.scope}]"},
		{scope, unit.OutputJournal, unit.StateSettled, "[{journal journalctl -t x}]"},
		{unit.Identity{Isolation: "cgroup"}, unit.OutputInherit, unit.StateRunning, "[]"},
		{unit.Identity{Isolation: "group"}, unit.OutputJournal, unit.StateRunning, "[{journal journalctl -t x}]"},
		{unit.Identity{}, unit.OutputCapture, unit.StateSettled, "[{output unitward logs x}]"},
	} {
		rec := &unit.Record{Name: "x", Identity: c.id, Output: c.output}
		if got := fmt.Sprint(places(rec, c.state)); got != c.want {
			t.Errorf("%+v, %s, %s: %s, want %s", c.id, c.output, c.state, got, c.want)
		}
	}
	// A name with an escape stands in quotes: a shell takes the backslash away.
	escaped := unit.Identity{Isolation: "service", Unit: `a\x2db@1.service`}
	far := escaped
	far.Far = &unit.Far{Remote: unit.Remote{Host: "far"}}
	for id, want := range map[*unit.Identity]string{
		&escaped: `[{terminal unitward attach 'a\x2db@1'} {output unitward logs 'a\x2db@1'} {journal journalctl -u 'a\x2db@1.service'} {systemd systemctl status 'a\x2db@1.service'}]`,
		&far:     `[{terminal unitward attach 'a\x2db@1'} {output unitward logs 'a\x2db@1'} {journal ssh far journalctl -u ''\''a\x2db@1.service'\'''} {systemd systemctl -H far status 'a\x2db@1.service'}]`,
	} {
		rec := &unit.Record{Name: `a\x2db@1`, Identity: *id, Output: unit.OutputCapture, Attachable: true}
		if got := fmt.Sprint(places(rec, unit.StateRunning)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for state, want := range map[unit.State]string{unit.StateRunning: "[{terminal unitward attach x}]", unit.StateEnded: "[]", unit.StateSettled: "[]"} {
		if got := fmt.Sprint(places(&unit.Record{Name: "x", Attachable: true}, state)); got != want {
			t.Errorf("with a terminal, %s: %s, want %s", state, got, want)
		}
	}
}
