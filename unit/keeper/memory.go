package keeper

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// pages is a range of addresses of whole pages.
type pages struct{ from, to uintptr }

// maxMaps is enough for the mappings of a Go program; what is beyond is
// passed on to a child.
const maxMaps = 32 << 10

// privateMemory lists this process's memory that belongs to no file, but for
// the range keep, and for the stack of the first thread, which has the command
// line. The program's variables without a value, which a child may look at,
// come apart. It is empty where /proc cannot be read.
func privateMemory(keep pages) (heap []pages, variables pages) {
	fd, err := unix.Open("/proc/self/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, pages{}
	}
	defer unix.Close(fd)
	buf := make([]byte, maxMaps)
	filled := 0
	for filled < len(buf) {
		n, err := unix.Read(fd, buf[filled:])
		if err != nil || n <= 0 {
			break
		}
		filled += n
	}
	heap = make([]pages, 0, 64)
	fileEnd := uintptr(0)
	for line := range bytes.Lines(buf[:filled]) {
		p, ok := parseMap(line)
		switch {
		case bytes.Contains(line, []byte(" /")):
			fileEnd = p.to
		case !ok:
		case p.from == fileEnd:
			variables = p // they go on where the file ends
		case p.from <= keep.from && keep.from < p.to:
			// Neighbours of one kind are one line.
			if p.from < keep.from {
				heap = append(heap, pages{p.from, keep.from})
			}
			if keep.to < p.to {
				heap = append(heap, pages{keep.to, p.to})
			}
		default:
			heap = append(heap, p)
		}
	}
	return heap, variables
}

// parseMap takes a line of proc_pid_maps(5), such as
//
//	c000000000-c000400000 rw-p 00000000 00:00 0    [anon: Go: heap]
//
// ok is true for one that is private, writable and of no file. The range is
// known in any case.
func parseMap(line []byte) (p pages, ok bool) {
	var rest []byte
	p.from, rest = parseHex(line)
	if len(rest) == 0 || rest[0] != '-' {
		return p, false
	}
	p.to, rest = parseHex(rest[1:])
	if !bytes.HasPrefix(rest, []byte(" rw-p 00000000 00:00 0")) || bytes.HasSuffix(rest, []byte(" [stack]\n")) {
		return p, false
	}
	return p, p.from < p.to
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
