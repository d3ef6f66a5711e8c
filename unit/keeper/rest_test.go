package keeper

import (
	"testing"
)

func TestProgramOf(t *testing.T) {
	const alone = `00400000-006c8000 r-xp 00000000 fe:00 10327356                           /usr/bin/unitward
006c8000-009c0000 r--p 002c8000 fe:00 10327356                           /usr/bin/unitward
009c0000-009e8000 rw-p 005c0000 fe:00 10327356                           /usr/bin/unitward
95085800000-95085c00000 rw-p 00000000 00:00 0 
7f0f2e1d1000-7f0f2e231000 r--p 00000000 00:00 0                          [vvar]
`
	if got := programOf([]byte(alone)); len(got) != 2 || got[0] != (pages{0x400000, 0x6c8000}) || got[1] != (pages{0x6c8000, 0x9c0000}) {
		t.Errorf("%x", got)
	}
	// Its loader has changed what is read-only now.
	const loaded = alone + `7f0f2e2d1000-7f0f2e2d5000 r--p 001d0000 fe:00 1032                    /usr/lib/x86_64-linux-gnu/libc.so.6
`
	if got := programOf([]byte(loaded)); len(got) > 0 {
		t.Errorf("of a program with a C library %x is given back", got)
	}
}

// What rests goes on.
func TestRest(t *testing.T) {
	for range 3 {
		Rest()
	}
}
