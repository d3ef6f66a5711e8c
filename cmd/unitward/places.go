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
		all = append(all, place{"terminal", "unitward attach " + verify.Typed(rec.Name)})
	}
	if rec.Output == unit.OutputCapture {
		all = append(all, place{"output", "unitward logs " + verify.Typed(rec.Name)})
	}
	if rec.Output == unit.OutputJournal || onManager(rec) {
		all = append(all, place{"journal", journalOf(rec)})
	}
	// A settled job's unit has been given back.
	if onManager(rec) && state != unit.StateSettled {
		all = append(all, place{"systemd", unit.Systemctl(rec.Identity.Manager, rec.Identity.Remote()) + " status " + verify.Typed(rec.Identity.Unit)})
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
		return "journalctl -t " + verify.Typed(rec.Name) // the stream carries the job's name
	case name == "":
		name = rec.Name + ".service"
	}
	if name = verify.Typed(name); id.Remote().Host != "" {
		name = verify.Typed(name) // a shell there takes it, too
	}
	return journalctlFor(id) + name
}

// journalctlFor is how journalctl is asked for a unit, whose name follows. It
// leads to no host by itself, and of another user's units the fields alone tell.
func journalctlFor(id unit.Identity) string {
	option, field := " -u ", " _SYSTEMD_USER_UNIT="
	switch r := id.Remote(); {
	case r.Host != "":
		a, _ := unit.ParseHost(r.Host) // it was parsed before
		program := "ssh "
		if a.Port != "" {
			program += "-p " + a.Port + " "
		}
		if program += a.Login + " journalctl"; a.Container != "" {
			program += " -M " + a.Container
		}
		return program + option
	case r.Machine != "":
		_, machine, _, _ := unit.ParseMachine(r.Machine) // it was parsed before
		program := "journalctl"
		if machine != unit.ThisMachine {
			program += " -M " + machine
		}
		if id.Manager == unit.ManagerUser {
			return program + field
		}
		return program + option
	case id.Manager == unit.ManagerUser:
		return "journalctl --user" + option
	}
	return "journalctl" + option
}
