package serve

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// Modes of output.
const (
	modeNotify  = "notify"
	modeCapture = "capture"
	modeFiles   = "files"
	modeNull    = "null"
)

const (
	// maxToken bounds what is remembered of a client's tokens.
	maxToken = 128
	// maxOwner bounds the label of an owner.
	maxOwner = 256
	// stdinPipe is the input that job.write writes to.
	stdinPipe = "pipe"
)

// spec checks what was asked for and turns it into a job, but for its place
// and executable. What was asked is completed by what it leaves open.
func (s *Server) spec(p *StartParams) (*unit.Spec, *Error) {
	spec := &unit.Spec{
		Umask: s.cfg.Caller.Umask, Rlimits: s.cfg.Caller.Rlimits, Slice: p.Slice, Description: p.Description,
		Properties: p.Properties, UID: p.UID, GID: p.GID, Nice: p.Nice, Owner: p.Owner, OwnerPID: p.OwnerPID, OwnerUnit: p.OwnerUnit, Key: p.Key,
		RequireLimits: p.RequireLimits, CgroupParent: p.CgroupParent, Grace: unit.DefaultGrace,
	}
	for _, step := range []func(*StartParams, *unit.Spec) *Error{identity, place, policies, times, limits, output, s.environment} {
		if err := step(p, spec); err != nil {
			return nil, err
		}
	}
	if err := launch.CheckAssigned(p.Properties, given(p)); err != nil {
		return nil, refused(err)
	}
	if err := launch.Check(spec); err != nil {
		return nil, refused(err)
	}
	return spec, nil
}

// identity is what the job and its start are called, and what it runs.
func identity(p *StartParams, s *unit.Spec) *Error {
	if len(p.Command) == 0 {
		return wrong("command", nil, "it is empty", "its first element is the command's name")
	}
	for i, a := range p.Command {
		if strings.ContainsRune(string(a), 0) {
			return wrong(fmt.Sprintf("command[%d]", i), string(a), "it has a NUL")
		}
		s.Command = append(s.Command, string(a))
	}
	if p.Name != "" {
		name, err := unit.ParseName(p.Name)
		if err != nil {
			return asError(err).field("name")
		}
		s.Name = name
	}
	for _, f := range []struct {
		name, value string
		most        int
	}{{"token", p.Token, maxToken}, {"owner", p.Owner, maxOwner}, {"key", p.Key, maxOwner}} {
		if len(f.value) > f.most {
			return wrong(f.name, f.value, fmt.Sprintf("it has %d bytes, of at most %d", len(f.value), f.most))
		}
	}
	return nil
}

// place is what the job is held by.
func place(p *StartParams, s *unit.Spec) *Error {
	if !oneOf(p.Manager, "", string(unit.ManagerUser), string(unit.ManagerSystem)) {
		return wrong("manager", p.Manager, "user or system is expected")
	}
	if s.Manager = unit.Manager(p.Manager); s.Manager == "" {
		s.Manager = launch.DefaultManager(os.Geteuid())
	}
	rungs, err := launch.Choose(p.Isolation, p.Manager != "", p.CgroupParent)
	if err != nil {
		return refused(err)
	}
	s.Isolation = rungs
	return nil
}

// given are the parts of a job that can be properties, too.
func given(p *StartParams) (fields []string) {
	for field, is := range map[string]bool{
		"memory_max": p.Limits.MemoryMax != "", "tasks_max": p.Limits.TasksMax != "", "cpu_quota": p.Limits.CPUQuota != "", "nice": p.Nice != nil,
		"uid": p.UID != "", "gid": p.GID != "", "slice": p.Slice != "", "description": p.Description != "", "working_directory": p.Cwd != nil,
	} {
		if is {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return fields
}

// fieldOf is the path of the field by which a part of a job is asked for.
func fieldOf(part string) string {
	switch part {
	case "memory_max", "tasks_max", "cpu_quota":
		return "limits." + part
	case "on_output_max":
		return "output.on_max"
	case "property":
		return "properties"
	case "working_directory":
		return "cwd"
	}
	return part
}

// refused is what launch says of a job that was asked for.
func refused(err error) *Error {
	var wrong *launch.FieldError
	var slice *unit.SliceError
	switch {
	case errors.As(err, &wrong):
		return fail(CodeParams, KindUsage, wrong.Says(fieldOf), wrong.Hints(fieldOf)...).field(fieldOf(wrong.Field))
	case errors.As(err, &slice):
		return asError(err).field("slice")
	}
	return fail(CodeParams, KindUsage, err.Error(), hints(err)...)
}

func oneOf(value string, allowed ...string) bool { return slices.Contains(allowed, value) }

func policies(p *StartParams, s *unit.Spec) *Error {
	for _, c := range []struct {
		field   string
		value   *string
		allowed []string
	}{
		{"leftovers", &p.Leftovers, launch.Choices("leftovers")},
		{"lifetime", &p.Lifetime, launch.Choices("lifetime")},
		{"stdin", &p.Stdin, []string{"null", stdinPipe}},
		{"output.encoding", &p.Output.Encoding, []string{rpc.EncodingText, rpc.EncodingBase64}},
		{"output.on_max", &p.Output.OnMax, launch.Choices("on_output_max")},
	} {
		if *c.value == "" {
			*c.value = c.allowed[0]
		}
		if fault := chosen(c.field, *c.value, c.allowed...); fault != nil {
			return fault
		}
	}
	s.Leftovers, s.Lifetime, s.Stdin = unit.Leftovers(p.Leftovers), unit.Lifetime(p.Lifetime), unit.InputNull
	if p.Stdin == stdinPipe {
		s.Stdin = unit.InputInherit
	}
	switch {
	case p.Promotable && s.Lifetime != unit.LifetimeCall:
		return wrong("promotable", nil, "the job's lifetime is "+p.Lifetime+": it goes on by itself")
	case p.Promotable:
		s.DetachAfter = math.MaxInt64 // when is for job.promote to say
	}
	return nil
}

// forEver is a time that nobody sees the end of, with room to add to it.
const forEver = time.Duration(1 << 62)

// milliseconds is a time as a client gives it.
func milliseconds(field string, ms int64) (time.Duration, *Error) {
	switch {
	case ms < 0:
		return 0, wrong(field, ms, "a time is not less than nothing")
	case ms > int64(forEver/time.Millisecond):
		return forEver, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func times(p *StartParams, s *unit.Spec) (fault *Error) {
	if s.Timeout, fault = milliseconds("timeout_ms", p.TimeoutMS); fault != nil {
		return fault
	}
	if p.GraceMS != nil {
		if s.Grace, fault = milliseconds("grace_ms", *p.GraceMS); fault != nil {
			return fault
		}
	}
	if p.KillSignal == "" {
		return nil
	}
	n, err := launch.KillSignal(p.KillSignal)
	if err != nil {
		return wrong("kill_signal", p.KillSignal, err.Error(), hints(err)...)
	}
	s.KillSignal = n
	return nil
}

func limits(p *StartParams, s *unit.Spec) *Error {
	for _, l := range []struct{ name, value string }{
		{"MemoryMax", p.Limits.MemoryMax}, {"TasksMax", p.Limits.TasksMax}, {"CPUQuota", p.Limits.CPUQuota},
	} {
		if l.value != "" {
			s.Limits = append(s.Limits, unit.LimitAsked{Name: l.name, Value: l.value})
		}
	}
	return nil
}

// output decides where the output goes. What outlives the server cannot have a
// pipe to it.
func output(p *StartParams, s *unit.Spec) *Error {
	o := &p.Output
	ends := s.Lifetime == unit.LifetimeCall && !p.Promotable
	if o.Mode == "" {
		if o.Mode = modeCapture; ends {
			o.Mode = modeNotify
		}
	}
	if fault := chosen("output.mode", o.Mode, modeNotify, modeCapture, modeFiles, modeNull); fault != nil {
		return fault
	}
	switch {
	case o.Mode == modeNotify && !ends:
		return wrong("output.mode", o.Mode, "a job that can outlive the server cannot write to it", "capture with follow tells of output too")
	case o.Merged && o.Mode != modeNotify:
		return wrong("output.merged", nil, "it is for mode notify, and this is "+o.Mode, "with mode files, name the same file twice")
	case o.Follow && o.Mode != modeCapture:
		return wrong("output.follow", nil, "it is for mode capture, and this is "+o.Mode)
	case (o.Stdout != nil || o.Stderr != nil || o.Append) && o.Mode != modeFiles:
		return wrong("output.stdout", nil, "files are for mode files, and this is "+o.Mode)
	case o.Mode == modeFiles && o.Stdout == nil && o.Stderr == nil:
		return wrong("output.stdout", nil, "mode files needs a file")
	case o.MaxBytes != nil && (*o.MaxBytes < 0 || o.Mode != modeNotify && o.Mode != modeCapture):
		return wrong("output.max_bytes", *o.MaxBytes, "a size is expected, with mode notify or capture")
	}
	for _, f := range []struct {
		field string
		path  *rpc.Text
	}{{"output.stdout", o.Stdout}, {"output.stderr", o.Stderr}} {
		if f.path != nil && (!filepath.IsAbs(string(*f.path)) || strings.ContainsRune(string(*f.path), 0)) {
			return wrong(f.field, string(*f.path), "the absolute path of a file is expected")
		}
	}
	switch o.Mode {
	case modeNotify, modeFiles:
		s.Output = unit.OutputInherit
	case modeCapture:
		s.Output, s.OutputMax, s.OnOutputMax = unit.OutputCapture, capture.DefaultMax, unit.OnOutputMax(o.OnMax)
		if o.MaxBytes != nil {
			s.OutputMax = *o.MaxBytes
		}
	default:
		s.Output = unit.OutputNull
	}
	return nil
}

// environment decides the job's environment.
func (s *Server) environment(p *StartParams, spec *unit.Spec) *Error {
	var set []string
	var without []string
	for name, value := range p.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || value != nil && strings.ContainsRune(string(*value), 0):
			return wrong("env", name, "a name without = and a value without NUL are expected")
		case launch.CheckVariable(name) != nil:
			return wrong("env."+name, nil, launch.CheckVariable(name).Error())
		case value == nil:
			without, spec.Assigned = append(without, name), append(spec.Assigned, name)
		default:
			set, spec.Assigned = append(set, name+"="+string(*value)), append(spec.Assigned, name)
		}
	}
	slices.Sort(set)
	spec.Env = slices.DeleteFunc(unit.Environ(s.cfg.Environ, set, p.CleanEnv), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(without, name)
	})
	return nil
}

// locate finds directory and executable.
func (s *Server) locate(p *StartParams, spec *unit.Spec) error {
	dir := ""
	if p.Cwd != nil {
		if dir = string(*p.Cwd); strings.ContainsRune(dir, 0) {
			return wrong("cwd", dir, "it has a NUL")
		}
	}
	search := spec.Env
	if p.CleanEnv {
		search = unit.Environ(s.cfg.Environ, spec.Env, false)
	}
	return launch.Locate(spec, dir, search)
}
