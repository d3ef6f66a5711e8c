package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// Stdio are the caller's own streams, for a job that inherits them.
type Stdio struct {
	In, Out, Err *os.File
	// Meanwhile is called once where a job begins to be started, for what the
	// caller has to do anyway: for a service while the manager is at work. nil is
	// nothing.
	Meanwhile func()
}

func (io Stdio) meanwhile() {
	if io.Meanwhile != nil {
		io.Meanwhile()
	}
}

// handed is what a start leaves in files until it has been taken. They are
// written once the job's record says which they are: where their maker is killed
// they go with the job.
type handed struct {
	files []string
	// kept are files that the unit needs until its end.
	kept []string
	// write makes the files.
	write func() error
	// over is true for a handover, which await is for once it is written.
	over  bool
	await *keeper.Await
	// forget has the guard leave the files to us; nil where it does anyway.
	forget func()
}

// all are the files, of either kind.
func (h *handed) all() []string { return append(slices.Clone(h.files), h.kept...) }

// guarded has the guard of a job that ends with this process remove the files where
// that is killed before it has.
func (h *handed) guarded(u *service) {
	switch {
	case u.common != nil:
		h.forget = u.common.removes(h.files)
	case u.guard != nil && u.j.rec().Lifetime == unit.LifetimeCall:
		h.forget = u.guard.Removes(h.files...)
	}
}

func (h *handed) remove() {
	removeFiles(h.files)
	if h.forget != nil {
		h.forget()
	}
	if h.await != nil {
		h.await.Close()
	}
}

// The sum of arguments that a manager takes by itself: they become a line of
// a unit file, and one line of it has at most 1 MiB (systemd LONG_LINE_MAX).
const (
	maxDirectArgument = 64 << 10
	maxDirectCommand  = 128 << 10
)

// direct reports whether systemd can execute the command as it is. Where a
// job has a recorder, its environment, directory and limits must not be the
// recorder's too, so the command is handed over; but where it could not read
// the handover.
func direct(s *unit.Spec, recorder bool) bool {
	if recorder && !s.Apart() {
		return false
	}
	total := 0
	for _, a := range s.Command {
		total += len(a)
		if len(a) > maxDirectArgument || !utf8.ValidString(a) {
			return false
		}
	}
	if total > maxDirectCommand || !utf8.ValidString(s.Dir) || !utf8.ValidString(s.Path) {
		return false
	}
	return !slices.ContainsFunc(s.Env, func(kv string) bool { return !carries(kv) })
}

// service turns a spec into what the manager is asked for, and says which files
// go with it.
func (l *Launcher) service(ctx context.Context, c *dbusclient.Client, s *unit.Spec, rec *unit.Record, jobDir string, io Stdio) (dbusclient.Service, *handed, error) {
	svc := dbusclient.Service{
		Unit: rec.Identity.Unit, Description: s.Description, Slice: slice(s),
		Grace: s.Grace, Timeout: s.Timeout, KillSignal: s.KillSignal, Leftovers: s.Leftovers,
		UID: s.UID, GID: s.GID, Nice: s.Nice, IgnoreFailure: s.IgnoreFailure, JobMode: s.JobMode,
	}
	if svc.Description == "" {
		svc.Description = describe(s.Command)
	}
	if err := fits(s.Properties, c); err != nil {
		return svc, nil, err
	}
	props, err := properties(s)
	if err != nil {
		return svc, nil, err
	}
	svc.Properties = props
	if s.Window == nil {
		giveTerminal(s, io.In)
	}
	lend(s, io, &svc)
	if rec.Recorder {
		svc.StopPost = []string{l.cfg.Self, RecordVerb, jobDir}
		if svc.Privileged = s.Apart(); s.Root() != "/" {
			only, err := property.Convert("RootDirectoryStartOnly", "yes")
			if err != nil {
				return svc, nil, err
			}
			svc.Properties = append(svc.Properties, only...)
		}
		svc.Grace = max(svc.Grace, minRecorderGrace)
	}
	h, err := l.hand(ctx, c, s, rec, jobDir, &svc)
	if err == nil && !h.over && svc.StopPost == nil && len(s.Properties) == 0 && !s.Apart() && dbusclient.ForksToClose(c.Version()) {
		name(h, s.Manager, &svc)
	}
	if err == nil && h.over {
		svc.Properties, err = reachable(s, svc.Properties, jobDir, filepath.Dir(h.files[0]), l.cfg.Self)
	}
	return svc, h, err
}

// The hidden verbs by which a unit executes this program.
const (
	// BecomeVerb takes a handover's file: see keeper.Become.
	BecomeVerb = "_become"
	// RecordVerb takes a job's directory: see store.RecordExit.
	RecordVerb = "_record"
)

// slice is where the unit goes.
func slice(s *unit.Spec) string {
	switch {
	case s.Slice != "":
		return s.Slice
	case s.Manager == unit.ManagerUser:
		return "app-unitward.slice"
	}
	return "unitward.slice"
}

// hand prepares environment, arguments, directory and limits of the process:
// systemd's own way where it can carry them, else by a handover.
func (l *Launcher) hand(ctx context.Context, c *dbusclient.Client, s *unit.Spec, rec *unit.Record, jobDir string, svc *dbusclient.Service) (*handed, error) {
	dir, err := l.runtimeDir()
	if err != nil {
		return nil, err
	}
	base := dir + "/" + rec.Identity.Nonce
	h := &handed{}
	env := append(slices.DeleteFunc(slices.Clone(s.Env), callersUser(s)), unit.JobVariable+"="+rec.Name)
	// For another user there is no other way.
	keeps := s.Apart() || dbusclient.KeepsCommand(c.Version(), s.Path, s.Command)
	last := lasting(s)
	if !rec.Tended && direct(s, rec.Recorder && !last) && keeps {
		if rec.Recorder || last {
			if i := slices.IndexFunc(s.Assigned, tellsEnd); i >= 0 {
				return nil, fmt.Errorf("cannot start %s with the variable %s: by that systemd tells how a service has ended, of which the job's own would be believed", rec.Identity.Unit, s.Assigned[i])
			}
			env = slices.DeleteFunc(env, tellsEnd)
		}
		svc.Path, svc.Argv, svc.Dir, svc.Umask, svc.Rlimits = s.Path, s.Command, s.Dir, &s.Umask, s.Rlimits[:]
		if err := environment(ctx, c, base+environmentSuffix, env, s, svc); err != nil {
			return nil, err
		}
		if rec.Recorder || last {
			h.kept = []string{svc.EnvironmentFile} // the recorder is given it too
		} else {
			h.files = []string{svc.EnvironmentFile}
		}
		h.write = func() error { return writeEnvironment(svc.EnvironmentFile, env) }
		return h, nil
	}
	if other := s.Apart(); other && s.Window != nil {
		return nil, refusal("terminal", "nobody can hold the terminal of a service of another user, or below another root directory; run --pty and the other isolations can")
	} else if other && s.Output == unit.OutputCapture {
		return nil, refusal("capture", "the output of a job of another user, or below another root directory, cannot be captured; --output journal or inherit can")
	} else if other && rec.Tended {
		return nil, refusal("timeout", fmt.Sprintf("systemd %d has no clock for what outlives the main process, and a job of another user, or below another root directory, nobody else who could stay with it", c.Version()))
	}
	if s.Apart() {
		return nil, fmt.Errorf("cannot start %s as another user, or below another root directory: its arguments or environment cannot be carried by systemd", rec.Identity.Unit)
	}
	file, status := base+".handover", base+".status"
	svc.Path, svc.Argv, svc.Dir = l.cfg.Self, []string{l.cfg.Self, BecomeVerb, file}, "/"
	handover := keeper.NewHandover(s, env, status)
	heed(svc.Properties, handover)
	if rec.Tended {
		svc.Argv[1], handover.JobDir, handover.Output = tendVerb, jobDir, s.Output
		handover.KillSignal = s.KillSignal
		handover.OutputMax, handover.OnOutputMax = s.OutputMax, string(s.OnOutputMax)
		handover.Window, handover.Leftovers, handover.Grace, handover.Timeout = s.Window, s.Leftovers, s.Grace, s.Timeout
	}
	h.files, h.over = []string{file, status}, true
	var carried []string
	if last {
		for _, kv := range env {
			if carries(kv) {
				carried = append(carried, kv)
			}
		}
		if err := environment(ctx, c, base+environmentSuffix, carried, s, svc); err != nil {
			return nil, err
		}
		h.kept = []string{svc.EnvironmentFile}
	}
	h.write = func() (err error) {
		if last {
			err = writeEnvironment(svc.EnvironmentFile, carried)
		}
		if err == nil {
			err = handover.Write(file)
		}
		if err == nil {
			h.await, err = keeper.Listen(status)
		}
		return err
	}
	return h, nil
}

// heed takes limits, umask and directory that the user asked of the manager by
// properties, which come after the caller's own: a handover would undo them.
func heed(props []property.Property, h *keeper.Handover) {
	for i, name := range unit.RlimitNames {
		v, set := property.Last(props, "Limit"+name)
		if !set {
			continue
		}
		hard, _ := v.Value().(uint64)
		h.Rlimits[i] = unit.Rlimit{Soft: hard, Hard: hard}
		if v, set := property.Last(props, "Limit"+name+"Soft"); set {
			h.Rlimits[i].Soft, _ = v.Value().(uint64)
		}
	}
	if v, set := property.Last(props, "UMask"); set {
		h.Umask, _ = v.Value().(uint32)
	}
	if _, set := property.Last(props, "WorkingDirectory"); set {
		h.Dir = nil
	}
}

func refusal(what, why string) error {
	return &unit.IsolationError{Isolation: verify.IsolationService, Refused: []unit.Refusal{{What: what, Why: why}}}
}

// tends is true for a service whose main process is to tend the job's: it keeps
// the output, or holds the terminal, or keeps the unit running while anything of the job is left, for
// a manager whose clock stops else (stopsClock), where no caller holds one.
func tends(s *unit.Spec, version int) bool {
	outlives := s.Lifetime != unit.LifetimeCall || s.DetachAfter > 0
	return s.Output == unit.OutputCapture || s.Window != nil || outlives && s.Timeout > 0 && stopsClock(s.Leftovers, version)
}

// stopsClock is true where RuntimeMaxSec= ends with the main process:
// RemainAfterExit=, which stands in for ExitType=cgroup, leaves the unit in a
// state that has no timer.
func stopsClock(policy unit.Leftovers, version int) bool {
	return policy == unit.LeftoversWait && !dbusclient.HasExitType(version)
}

// maxDescription is the length of a generated description in bytes.
const maxDescription = 120

// describe is the command line for people: valid UTF-8, one line, bounded.
func describe(command []string) string {
	var b strings.Builder
	for i, a := range command {
		if i > 0 {
			a = " " + a
		}
		for _, r := range a {
			if b.Len() >= maxDescription {
				return b.String() + "…"
			}
			if r < ' ' || r == utf8.RuneError || r == 0x7f {
				r = '?'
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}
