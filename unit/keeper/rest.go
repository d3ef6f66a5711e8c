package keeper

import (
	"bytes"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Rest gives back what this process has used so far and hardly needs while it
// does nothing but wait: the heap, and the pages of the program itself, which
// count as its own where nobody else runs it. They are read again as they are
// needed.
func Rest() {
	debug.FreeOSMemory()
	maps, err := os.ReadFile("/proc/self/maps")
	if err == nil {
		advise(programOf(maps), unix.MADV_DONTNEED)
	}
}

// programOf lists what of a process is the program, as it is on disk. That of one
// with a C library is not: its loader has written to pages which are read-only by
// now (RELRO), and whose loss would end it.
func programOf(maps []byte) []pages {
	if hasLoader(maps) {
		return nil
	}
	var out []pages
	for line := range bytes.Lines(maps) {
		if p, ok := parseProgram(line); ok {
			out = append(out, p)
		}
	}
	return out
}

// parseProgram takes a line of proc_pid_maps(5). ok is true for a mapping of a
// file that cannot have been changed here.
func parseProgram(line []byte) (p pages, ok bool) {
	var rest []byte
	p.from, rest = parseHex(line)
	if len(rest) == 0 || rest[0] != '-' {
		return p, false
	}
	p.to, rest = parseHex(rest[1:])
	readOnly := bytes.HasPrefix(rest, []byte(" r-xp ")) || bytes.HasPrefix(rest, []byte(" r--p "))
	return p, readOnly && bytes.Contains(rest, []byte(" /")) && p.from < p.to
}
