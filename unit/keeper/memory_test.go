package keeper

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

func TestHeapGaps(t *testing.T) {
	const maps = `00400000-00500000 r-xp 00000000 08:01 4711                               /bin/x y
00500000-00510000 rw-p 00100000 08:01 4711                               /bin/x y
00510000-00540000 rw-p 00000000 00:00 0 
c000000000-c000400000 rw-p 00000000 00:00 0                              [anon: Go: heap]
c000400000-c004000000 ---p 00000000 00:00 0                              [anon: Go: heap reservation]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
7f0000200000-7f0000201000 rw-s 00000000 00:01 4711                       /dev/zero (deleted)
7f0000300000-7f0000301000 rw-s 00000000 00:01 4711 
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00100000-7ffc00104000 r--p 00000000 00:00 0                          [vvar]
7ffc00104000-7ffc00106000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`
	gaps, variables := heapGaps([]byte(maps), pages{0x7f0000010000, 0x7f0000018000})
	want := []pages{{0x10000, 0x400000}, {0x540000, 0x7f0000010000}, {0x7f0000018000, 0x7f0000200000},
		{0x7f0000201000, 0x7f0000300000}, {0x7f0000301000, 0x7ffc00000000}, {0x7ffc00021000, 0x7ffc00100000},
		{0x7ffc00106000, 0xffffffffff600000}}
	if !reflect.DeepEqual(gaps, want) || variables != (pages{0x510000, 0x540000}) {
		t.Errorf("the gaps are %x, the variables %x", gaps, variables)
	}
	low, _ := heapGaps([]byte("00400000-00500000 r-xp 00000000 08:01 4711 /bin/x\nc000000000-c000400000 rw-p 00000000 00:00 0 \n"), pages{})
	if want := []pages{{0x10000, 0x400000}, {0x500000, 0xc000400000}}; !reflect.DeepEqual(low, want) {
		t.Errorf("with the heap at the end: %x", low)
	}
	// What follows the file of a library can be one mapping with what is kept.
	lib := maps[:strings.Index(maps, "7f0000200000")] + "7f0000100000-7f0000110000 rw-p 00001000 08:01 4712    /lib/libc.so\n7f0000110000-7f0000120000 rw-p 00000000 00:00 0 \n"
	if _, v := heapGaps([]byte(lib), pages{0x7f0000118000, 0x7f0000120000}); v.from < 0x7f0000120000 && 0x7f0000118000 < v.to {
		t.Errorf("what is kept is among the variables: %x", v)
	}
	for _, bad := range []string{"x", "7f12a000", "7f12a000-", "7f12a000-7f12b000", "7f12b000-7f12a000 rw-p 00000000 00:00 0 \n"} {
		if gaps, _ := heapGaps([]byte(maps+bad), pages{}); gaps != nil {
			t.Errorf("with %q there are gaps: %x", bad, gaps)
		}
	}
	if gaps, _ := heapGaps(nil, pages{}); gaps != nil {
		t.Errorf("of nothing: %x", gaps)
	}
}

// The heap is in a gap; the program, the command line and what is kept are
// not.
func TestHeapGapsOfThisProcess(t *testing.T) {
	o, mem, err := shell("exit 0").order()
	if err != nil {
		t.Fatal(err)
	}
	defer unmap(mem)
	gaps, variables := heapGaps(readMaps(make([]byte, maxMaps)), o.all)
	within := func(at uintptr) (n int) {
		for _, p := range gaps {
			if p.from <= at && at < p.to {
				n++
			}
		}
		return n
	}
	heap := new([4096]byte)
	if len(gaps) == 0 || len(gaps) > len(o.gaps) || within(uintptr(unsafe.Pointer(heap))) != 1 {
		t.Errorf("the heap is not in %x", gaps)
	}
	entry := reap
	for name, at := range map[string]uintptr{"code": **(**uintptr)(unsafe.Pointer(&entry)), "orders": o.all.from, "their end": o.all.to - 1,
		"the command line": uintptr(unsafe.Pointer(unsafe.StringData(os.Args[0]))), "variables": variables.from} {
		if at == 0 || within(at) != 0 {
			t.Errorf("%s at %x is in a gap: %x", name, at, gaps)
		}
	}
}
