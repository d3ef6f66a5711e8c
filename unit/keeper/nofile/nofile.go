// Package nofile knows the RLIMIT_NOFILE that this process was started with.
//
// The syscall package raises the soft limit to the hard one when it is
// initialised (Go 1.19) and gives the old value back only to what it executes
// itself. A job that somebody else executes must get it too, so it has to be
// read first. Packages are initialised in the order of their import paths as
// soon as their imports are (Go specification, "Program initialization"): one
// that imports nothing and sorts before "syscall" comes first.
package nofile

var (
	original [2]uint64
	errno    = prlimit(&original)
)

// Original returns the soft and hard limit at the start of the process. ok is
// false when the kernel refused to tell.
func Original() (soft, hard uint64, ok bool) {
	return original[0], original[1], errno == 0
}

// prlimit is prlimit64(0, RLIMIT_NOFILE, nil, limit). It returns the kernel's
// result: 0 or a negated errno.
//
//go:noescape
func prlimit(limit *[2]uint64) int64
