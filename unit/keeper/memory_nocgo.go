//go:build !cgo

package keeper

// passAll is false: nothing but Go knows of this process's memory.
const passAll = false
