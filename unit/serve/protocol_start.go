package serve

import (
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// StartParams is a job as a client asks for it.
type StartParams struct {
	// Command is the argument vector; it has at least the command's name.
	Command []rpc.Text `json:"command"`
	// Name is the job's name; empty draws one.
	Name string `json:"name,omitempty"`
	// Owner is a label of the client's session, for job.stopOwner.
	Owner string `json:"owner,omitempty"`
	// Token names the start for job.abortStart; it is at most 128 bytes long.
	Token string `json:"token,omitempty"`
	// Key makes the start idempotent: a job that was started with it and is
	// not settled is returned instead.
	Key string `json:"key,omitempty"`

	// Cwd is the working directory; empty is the server's.
	Cwd *rpc.Text `json:"cwd,omitempty"`
	// Env is set on top of the server's environment, or of nothing with
	// CleanEnv; null takes a variable away.
	Env      map[string]*rpc.Text `json:"env,omitempty"`
	CleanEnv bool                 `json:"clean_env,omitempty"`
	// UID and GID are the user and group that the job runs as, by name or number;
	// empty UID is the server's user, empty GID the group of that user.
	UID string `json:"uid,omitempty"`
	GID string `json:"gid,omitempty"`
	// Nice is the scheduling priority from -20 to 19; null is that of who starts
	// the job, the server or a manager.
	Nice *int `json:"nice,omitempty"`

	// Isolation are the rungs to try, in this order; none is all that work.
	Isolation []string `json:"isolation,omitempty"`
	// Manager is "user" or "system"; empty is the system's for root, else the
	// user's.
	Manager string `json:"manager,omitempty"`
	// Slice is the unit's, "a" and "a.slice" being the same; empty is unitward's
	// own.
	Slice string `json:"slice,omitempty"`
	// CgroupParent is, for isolation cgroup, the cgroup below which that of the job
	// is made, as a path from the root of the hierarchy; empty is one that is found
	// to allow it.
	CgroupParent string `json:"cgroup_parent,omitempty"`
	// Description is that of the unit; empty is the command.
	Description string `json:"description,omitempty"`
	// Properties are unit properties as NAME=VALUE.
	Properties []string `json:"properties,omitempty"`
	// Limits are those of the whole job.
	Limits        JobLimits `json:"limits,omitzero"`
	RequireLimits bool      `json:"require_limits,omitempty"`

	// TimeoutMS ends the job when it runs longer; 0 is never.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// GraceMS is the time between the kill signal and KILL; null is 10 s.
	GraceMS *int64 `json:"grace_ms,omitempty"`
	// KillSignal is what a stop sends first, a name such as INT or a number; empty
	// is TERM.
	KillSignal string `json:"kill_signal,omitempty"`
	// Leftovers is "kill", the default, "wait" or "keep".
	Leftovers string `json:"leftovers,omitempty"`
	// Lifetime is "call", the default, which ends the job with the server,
	// "owner" or "detached".
	Lifetime string `json:"lifetime,omitempty"`
	// OwnerPID is the process whose end ends a job of lifetime owner.
	OwnerPID int `json:"owner_pid,omitempty"`
	// OwnerUnit is a unit of a manager in its place: the job ends once that has no
	// process left.
	OwnerUnit string `json:"owner_unit,omitempty"`
	// Promotable lets job.promote detach the job later.
	Promotable bool `json:"promotable,omitempty"`

	// Stdin is "null", the default, or "pipe", for job.write.
	Stdin string `json:"stdin,omitempty"`
	// Output says where the job's output goes.
	Output OutputParams `json:"output,omitzero"`
}

// JobLimits are limits in the syntax of systemd.resource-control(5); empty is
// none.
type JobLimits struct {
	MemoryMax string `json:"memory_max,omitempty"`
	TasksMax  string `json:"tasks_max,omitempty"`
	CPUQuota  string `json:"cpu_quota,omitempty"`
}

// OutputParams says where a job's output goes.
type OutputParams struct {
	// Mode is "notify": pipes that the server reads; "capture": files in the
	// job's directory; "files": the files that are named; or "null". Empty is
	// notify for a job that ends with the server, else capture.
	Mode string `json:"mode,omitempty"`
	// Stdout and Stderr are, with files, the absolute paths of the files, which
	// are emptied unless Append is set; null is nowhere. The job gets the
	// files' own descriptors.
	Stdout *rpc.Text `json:"stdout,omitempty"`
	Stderr *rpc.Text `json:"stderr,omitempty"`
	Append bool      `json:"append,omitempty"`
	// Merged is one pipe for both streams, with notify; it is called stdout.
	Merged bool `json:"merged,omitempty"`
	// Encoding is "text", the default, or "base64".
	Encoding string `json:"encoding,omitempty"`
	// Follow tells of captured output as of that of notify.
	Follow bool `json:"follow,omitempty"`
	// MaxBytes is how much output there may be: with notify of both streams
	// together, with capture of each, whose default is 64 MiB. OnMax is
	// "truncate", the default, or "stop".
	MaxBytes *int64 `json:"max_bytes,omitempty"`
	OnMax    string `json:"on_max,omitempty"`
}

// RunParams is a job that is awaited: until it has settled, or until its main
// process has ended where leftovers are kept.
type RunParams struct {
	StartParams
	// BackgroundAfterMS answers after that time, with a job that goes on
	// detached; it makes the job promotable. 0 is never. A job that was joined is
	// detached only if it was started as promotable by this server, and else, where
	// its lifetime is call, awaited to its end.
	BackgroundAfterMS int64 `json:"background_after_ms,omitempty"`
}

// StartResult is a job that was started.
type StartResult struct {
	Name string `json:"name"`
	// Joined is true for a job that the same key had started before.
	Joined bool        `json:"joined"`
	Report unit.Report `json:"report"`
}

// RunResult is a job that was awaited.
type RunResult struct {
	Name string `json:"name"`
	// Background is true when the job goes on, detached.
	Background bool `json:"background"`
	// Cancelled is true when the request was cancelled, which stopped the job; the end
	// of the server cancels it too, and stops none that outlives it.
	Cancelled bool        `json:"cancelled"`
	Facts     Facts       `json:"facts"`
	Report    unit.Report `json:"report"`
}
