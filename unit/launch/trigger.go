package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// Trigger starts a job each time that something happens: a timer elapses, a
// path changes, somebody connects to a socket.
type Trigger struct {
	Kind property.Trigger
	// Name is that of its units, without a suffix.
	Name string
	// Properties are the trigger unit's own as NAME=VALUE, in the syntax of
	// unit files.
	Properties []string
	// Job is the job as far as the service needs it: its manager, slice and
	// grace, and what it inherits. nil leaves the service NAME.service to be
	// there already.
	Job *unit.Spec
	// JobMode is the mode of the trigger's own start job; empty is "fail".
	JobMode string
	// Args is the command line of unitward that runs the job once, without the
	// verb. A job that is given sockets is what the service itself executes
	// instead, since they go to the service alone.
	Args []string
	// Environ is the environment in which Args are taken.
	Environ []string
}

// firing is what the triggered service is told, by a file for nobody else to
// read: it has the job's environment.
type firing struct {
	Name string   `json:"name"`
	Args [][]byte `json:"args,omitempty"`
	Env  [][]byte `json:"env"`
	// Once is true where there will be no second run.
	Once bool `json:"once"`
	// Command is executed in place of a run of unitward; nil is none.
	Command *keeper.Handover `json:"command,omitempty"`
}

// FireVerb takes the file of a firing: see Fire.
const FireVerb = "_fire"

// stopMargin is what the triggered service is given beyond its job's grace, to
// stop and prove it.
const stopMargin = 10 * time.Second

// StartTrigger makes a trigger and the service that it starts, and returns when
// it is waiting. Each run is a job of its own, whose name is that of the trigger
// with random digits after it; the service lasts as long as the job. The errors
// are those of Start that can come before a job exists, and of
// property.ParseTrigger.
func (l *Launcher) StartTrigger(ctx context.Context, m unit.Manager, t Trigger) error {
	props, err := t.parse()
	if err != nil {
		return err
	}
	if len(t.Name) > maxTriggerName {
		return &unit.NameError{Name: t.Name, Reason: fmt.Sprintf("it has %d bytes, and that of a %s %d at most", len(t.Name), t.Kind, maxTriggerName)}
	}
	c, err := l.client(ctx, here(m))
	if err != nil {
		return err
	}
	if err := property.SupportedTrigger(t.Kind, t.Properties, c.Version()); err != nil {
		return err
	}
	asked := dbusclient.Trigger{Unit: t.Name + "." + string(t.Kind), Properties: props, Description: "start of " + t.Name + ".service", JobMode: t.JobMode}
	file := ""
	if t.Job != nil {
		if asked.Service, file, err = l.triggered(ctx, c, t); err != nil {
			return err
		}
		asked.Description = asked.Service.Description
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	u, err := c.StartTrigger(ctx, asked)
	if err == nil {
		defer u.Close()
		var result string
		if result, err = u.Started(ctx); err != nil {
			// It is there, and goes on by what was written for it.
			err = &unit.UnknownOutcomeError{Op: "the start of " + asked.Unit, Err: err}
		} else if result != "done" && result != "" {
			err = &unit.StartError{Unit: asked.Unit, Status: statusNoRun, Detail: "its start job ended as " + result,
				Hints: []string{"the manager's log says why: " + journalOf(m, asked.Unit)}}
		}
	}
	var unknown *unit.UnknownOutcomeError
	if err != nil && file != "" && !errors.As(err, &unknown) {
		os.Remove(file)
	}
	return err
}

func (t *Trigger) parse() ([]property.Property, error) {
	var all []property.Property
	asked := t.Properties
	if t.Kind == property.Timer {
		// It goes when it has elapsed for the last time, so that its name is
		// free.
		asked = append([]string{"RemainAfterElapse=no"}, asked...)
	}
	for _, a := range asked {
		ps, err := property.ParseTrigger(t.Kind, a)
		if err != nil {
			return nil, err
		}
		all = append(all, ps...)
	}
	if accept, ok := property.Last(all, "Accept"); ok && accept.Value() == true && t.Job != nil {
		return nil, &property.NotAllowedError{
			Name: "Accept", Reason: "each connection would start an instance of a template, and the service of a command is none",
			Way: "leave it out: the command is given the socket that listens, or name a unit whose template NAME@.service is there",
		}
	}
	return all, nil
}

// once is true for a timer that elapses once, and then never again.
func (t *Trigger) once() bool {
	times := 0
	for _, a := range t.Properties {
		switch name, _, _ := strings.Cut(a, "="); {
		case name == "OnActiveSec", name == "OnBootSec", name == "OnStartupSec":
			times++
		case strings.HasPrefix(name, "On"):
			return false
		}
	}
	return t.Kind == property.Timer && times == 1
}

// triggered is the service, and the file that tells it what to run.
func (l *Launcher) triggered(ctx context.Context, c *dbusclient.Client, t Trigger) (*dbusclient.Service, string, error) {
	s := t.Job
	if err := fits(s.Properties, c); err != nil {
		return nil, "", err
	}
	if err := l.store.Make(); err != nil { // it may be what runtimeDir takes
		return nil, "", err
	}
	dir, err := l.runtimeDir()
	if err != nil {
		return nil, "", err
	}
	l.SweepTriggers(ctx)
	f := firing{Name: t.Name, Env: raw(t.Environ), Once: t.once()}
	// The job is ended by who runs it, which has the reason.
	mixed, err := property.Convert("KillMode", "mixed")
	if err != nil {
		return nil, "", err
	}
	svc := &dbusclient.Service{
		Unit: t.Name + ".service", Description: s.Description, Slice: slice(s), Dir: s.Dir, Umask: &s.Umask, Rlimits: s.Rlimits[:],
		Output: unit.OutputJournal, Grace: s.Grace + stopMargin, IgnoreFailure: s.IgnoreFailure, Properties: mixed,
		Leftovers: unit.LeftoversKill,
	}
	if svc.Description == "" {
		svc.Description = describe(s.Command)
	}
	if t.Kind == property.Socket {
		if s.Apart() {
			return nil, "", &AskError{"cannot start a job on a socket as another user: who executes it could not read its environment", "leave out --uid and --gid"}
		}
		f.Command = keeper.NewHandover(s, s.Env, "")
		own, err := properties(s)
		if err != nil {
			return nil, "", err
		}
		svc.Grace, svc.Timeout, svc.KillSignal, svc.Nice, svc.Properties = s.Grace, s.Timeout, s.KillSignal, s.Nice, own
	} else {
		f.Args = raw(t.Args)
	}
	file := filepath.Join(dir, l.triggerID(s.Manager, t).String())
	svc.Path, svc.Argv = l.cfg.Self, []string{l.cfg.Self, FireVerb, file}
	return svc, file, f.write(file)
}

// Fire reads what a trigger's service is to run: the environment, and the
// command line of unitward without the verb, or none where the service executes
// the command itself. Then this process has become that, and Fire returns only
// if it fails.
func Fire(file string) (env, args []string, err error) {
	b, err := keeper.ReadPrivate(file, false)
	if err != nil {
		return nil, nil, err
	}
	var f firing
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, nil, err
	}
	if f.Once {
		os.Remove(file)
	}
	if f.Command != nil {
		return nil, nil, f.Command.Exec()
	}
	for _, kv := range f.Env {
		env = append(env, string(kv))
	}
	name := cutName(f.Name, unit.MaxName-9) + "-" + random(4)
	args = []string{"--unit=" + name}
	for _, a := range f.Args {
		args = append(args, string(a))
	}
	return env, args, nil
}

// cutName cuts a unit's name to a length, and not within an escape.
func cutName(name string, length int) string {
	if len(name) <= length {
		return name
	}
	name = name[:length]
	if i := strings.LastIndexByte(name, '\\'); i >= 0 && len(name)-i < len(`\x2d`) {
		name = name[:i]
	}
	return name
}

// journalOf is the command that shows a unit's log.
func journalOf(m unit.Manager, name string) string {
	if m == unit.ManagerUser {
		return "journalctl --user -u " + verify.Typed(name)
	}
	return "journalctl -u " + verify.Typed(name)
}
