package keeper

import "unsafe"

// record is what a reaper tells its keeper, and a main process that cannot be
// executed too.
type record struct {
	kind   uint32
	pid    int32
	status int32 // a wait status, or an operation
	errno  int32
	at     int64 // CLOCK_REALTIME in nanoseconds
	cpu    int64 // nanoseconds
	rss    int64 // KiB
}

const recordSize = unsafe.Sizeof(record{})

const (
	recordBorn = iota + 1
	recordFailed
	recordExit
	recordRefused
	recordChildless
)

// What can fail in a child.
const (
	opKeeper = iota + 1
	opClone3
	opJoin
	opBirth
	opDescriptors
	opSubreaper
	opSignals
	opFork
	opSetsid
	opNice
	opRlimit
	opGroups
	opGID
	opUID
	opChdir
	opExec
	opTerminal
)

func opName(op int32) string {
	names := [...]string{opKeeper: "write to the keeper's cgroup.procs", opClone3: "clone3", opJoin: "write to cgroup.procs",
		opBirth: "birth", opDescriptors: "dup", opSubreaper: "prctl", opSignals: "signalfd", opFork: "fork", opSetsid: "setsid",
		opNice: "setpriority", opRlimit: "setrlimit", opGroups: "setgroups", opGID: "setgid", opUID: "setuid",
		opChdir: "chdir", opExec: "exec", opTerminal: "TIOCSCTTY"}
	if op <= 0 || int(op) >= len(names) {
		return "start"
	}
	return names[op]
}
