package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// triggerMark stands in the names of the files of triggers, which are beside those
// of jobs, and no nonce has it.
const triggerMark = ".trigger."

// triggerID is what the name of a trigger's file says: whose file it is, and who
// made it.
type triggerID struct {
	name    string
	manager unit.Manager
	kind    property.Trigger
	maker   unit.Process
	// boot is the beginning of the boot's id.
	boot string
}

// maxTriggerName is the longest name of a trigger in bytes, which with the rest is
// within NAME_MAX.
const maxTriggerName = 200

// bootLetters are enough to tell one boot from the next.
const bootLetters = 8

func (l *Launcher) triggerID(m unit.Manager, t Trigger) triggerID {
	return triggerID{t.Name, m, t.Kind, l.self, l.host.boot[:min(len(l.host.boot), bootLetters)]}
}

func (t triggerID) String() string {
	return fmt.Sprintf("%s%s%s.%s.%d-%d-%s", t.name, triggerMark, t.manager, t.kind, t.maker.PID, t.maker.StartTime, t.boot)
}

// parseTriggerID reads the name of a file; false for any other than String gives.
func parseTriggerID(file string) (t triggerID, ok bool) {
	at := strings.LastIndex(file, triggerMark)
	if at <= 0 {
		return t, false
	}
	words := strings.FieldsFunc(file[at+len(triggerMark):], func(r rune) bool { return r == '.' || r == '-' })
	if len(words) < 4 {
		return t, false
	}
	t.name, t.manager, t.kind = file[:at], unit.Manager(words[0]), property.Trigger(words[1])
	if _, err := fmt.Sscan(words[2]+" "+words[3], &t.maker.PID, &t.maker.StartTime); err != nil {
		return t, false
	}
	if len(words) == 5 {
		t.boot = words[4]
	}
	managers := t.manager == unit.ManagerUser || t.manager == unit.ManagerSystem
	return t, managers && t.String() == file
}

// SweepTriggers removes the files of triggers that are gone, with their services:
// systemd drops a timer by itself, and tells nobody. A manager that cannot be
// reached says nothing of its own, and a trigger whose maker is there may be about
// to come. It costs no more than a look where there is no such file.
func (l *Launcher) SweepTriggers(ctx context.Context) {
	dir, err := l.runtimeDir()
	if err != nil {
		return
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"+triggerMark+"*"))
	if len(files) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	for _, file := range files {
		t, ok := parseTriggerID(filepath.Base(file))
		if !ok {
			continue
		}
		here := strings.HasPrefix(l.host.boot, t.boot)
		if here && !Ended(t.maker) {
			continue
		}
		if l.untriggered(ctx, t) {
			os.Remove(file)
		}
	}
}

// untriggered is true for a trigger that its manager has not, nor its service.
func (l *Launcher) untriggered(ctx context.Context, t triggerID) bool {
	c, err := l.client(ctx, here(t.manager))
	if err != nil {
		return false
	}
	for _, u := range []string{t.name + "." + string(t.kind), t.name + ".service"} {
		if loaded, err := c.Loaded(ctx, u); err != nil || loaded {
			return false
		}
	}
	return true
}

func (f *firing) write(file string) error {
	b, err := json.Marshal(f)
	if err == nil {
		err = keeper.WritePrivate(file, b)
	}
	if err != nil {
		return fmt.Errorf("cannot write what a trigger runs: %w", err)
	}
	return nil
}
