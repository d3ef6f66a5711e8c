package main

import (
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// place is where more is said of a job: a command that shows it.
type place struct{ what, command string }

// places are where more is said of a job that stands at state.
func places(rec *unit.Record, state unit.State) []place {
	var all []place
	if rec.Attachable && state == unit.StateRunning {
		all = append(all, place{"terminal", "unitward attach " + rec.Name})
	}
	if rec.Output == unit.OutputCapture {
		all = append(all, place{"output", "unitward logs " + rec.Name})
	}
	if rec.Output == unit.OutputJournal || onManager(rec) {
		all = append(all, place{"journal", journalOf(rec)})
	}
	// A settled job's unit has been given back.
	if onManager(rec) && state != unit.StateSettled {
		all = append(all, place{"systemd", forManager("systemctl", rec.Identity.Manager) + " status " + rec.Identity.Unit})
	}
	return all
}

func onManager(rec *unit.Record) bool {
	return rec.Identity.Unit != "" && (rec.Identity.Isolation == verify.IsolationService || rec.Identity.Isolation == verify.IsolationScope)
}

// journalOf is the command that shows what the journal has of a job: its unit's
// lines, with those of the manager, or for a job that writes to the journal
// from elsewhere those with its name.
func journalOf(rec *unit.Record) string {
	id := rec.Identity
	name := id.Unit
	switch {
	case id.Isolation != "" && id.Isolation != verify.IsolationService && (rec.Output == unit.OutputJournal || !onManager(rec)):
		return "journalctl -t " + rec.Name // the stream carries the job's name
	case name == "":
		name = rec.Name + ".service"
	}
	return forManager("journalctl", id.Manager) + " -u " + name
}

// forManager is a program of systemd for one of the managers.
func forManager(program string, m unit.Manager) string {
	if m == unit.ManagerUser {
		return program + " --user"
	}
	return program
}
