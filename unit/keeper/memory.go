package keeper

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// pages is a range of addresses of whole pages.
type pages struct{ from, to uintptr }

const (
	// maxMaps is enough for the mappings of a Go program.
	maxMaps = 32 << 10
	// lowest is where the first mapping can be (vm.mmap_min_addr).
	lowest = 64 << 10
)

// readMaps reads /proc/self/maps into buf, of maxMaps bytes; it is empty where
// that cannot be read whole.
func readMaps(buf []byte) []byte {
	fd, err := unix.Open("/proc/self/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	for filled := 0; filled < len(buf); {
		n, err := unix.Read(fd, buf[filled:])
		if err != nil {
			return nil
		}
		if n == 0 {
			return buf[:filled]
		}
		filled += n
	}
	return nil
}

// heapGaps lists the ranges of addresses in which a Go program has its heap
// and all else that is private and of no file: what is between the program's
// file, its variables, the kernel's own mappings, the stack of the first
// thread, which has the command line, and the range keep. They also cover what
// is mapped there later: maps may be of a moment before, as may be the range keep
// or not in it. The variables without a value come apart, unless keep is among them.
func heapGaps(maps []byte, keep pages) (gaps []pages, variables pages) {
	last, fileEnd, end := uintptr(lowest), uintptr(0), uintptr(0)
	add := func(p pages) {
		if last < p.from {
			gaps = append(gaps, pages{last, p.from})
		}
		last = max(last, p.to)
	}
	placed := keep == pages{}
	kept := func(p pages) { // in the order of addresses
		if !placed && keep.from < p.from {
			add(keep)
			placed = true
		}
		add(p)
	}
	for line := range bytes.Lines(maps) {
		m, ok := parseMap(line)
		end = m.to
		switch {
		case !ok:
			return nil, pages{}
		case m.file:
			kept(m.pages)
			fileEnd = m.to
		case m.from == fileEnd && m.heap:
			kept(m.pages) // what goes on where a file ends
			if keep.to <= m.from || m.to <= keep.from {
				variables = m.pages
			}
		case !m.heap:
			kept(m.pages)
		}
	}
	kept(pages{end, end})
	return gaps, variables
}

// mapping is a line of proc_pid_maps(5).
type mapping struct {
	pages
	file bool // it is of a file
	heap bool // it is private, and of nothing
}

// parseMap takes a line such as
//
//	c000000000-c000400000 rw-p 00000000 00:00 0    [anon: Go: heap]
func parseMap(line []byte) (m mapping, ok bool) {
	var rest []byte
	m.from, rest = parseHex(line)
	if len(rest) == 0 || rest[0] != '-' {
		return m, false
	}
	m.to, rest = parseHex(rest[1:])
	if m.from >= m.to || len(rest) < len(" rw-p ") || rest[0] != ' ' {
		return m, false
	}
	private := rest[len(" rw-")] == 'p'
	name := -1
	if m.file = bytes.Contains(rest, []byte(" /")); !m.file {
		name = bytes.IndexByte(rest, '[')
	}
	m.heap = private && !m.file && (name < 0 || bytes.HasPrefix(rest[name:], []byte("[anon:")))
	return m, true
}

func parseHex(b []byte) (n uintptr, rest []byte) {
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uintptr(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uintptr(c-'a'+10)
		default:
			return n, b[i:]
		}
	}
	return n, nil
}

// hasLoader is true for a program with a C library in it: that has told the
// kernel of memory which is written to whenever a thread is scheduled
// (rseq(2)), and a child without that memory is killed.
func hasLoader(maps []byte) bool {
	return bytes.Contains(maps, []byte("/ld-")) || bytes.Contains(maps, []byte("/libc"))
}
