//go:build cgo

package keeper

// passAll is true where a C library has told the kernel of memory that it is
// to write to whenever a thread is scheduled (rseq(2)): a child without that
// memory would be killed.
const passAll = true
