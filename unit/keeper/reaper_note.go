package keeper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noteExit writes down and tells of the main process what waitid(2) has just said.
// Whoever was told may look it up, or have others do so, at once.
//
//go:nosplit
//go:norace
func noteExit(o *orders) {
	switch o.info.code {
	case codeExited:
		o.status = o.info.status << 8
	case codeDumped:
		o.status = o.info.status | 0x80
	default:
		o.status = o.info.status
	}
	user, system := &o.usage.Utime, &o.usage.Stime
	o.record = record{kind: recordExit, pid: o.main, status: o.status, at: clock(o),
		cpu: (user.Sec+system.Sec)*1e9 + (user.Usec+system.Usec)*1e3, rss: o.usage.Maxrss}
	if o.fds[slotRecord] >= 0 {
		beginLine(o, wordExit)
		putNumber(o, uint64(uint32(o.record.status)))
		putNumber(o, uint64(o.record.at))
		putNumber(o, uint64(o.record.cpu))
		putNumber(o, uint64(o.record.rss))
		writeLine(o)
	}
	sendRecord(o, uintptr(o.fds[slotControl]))
}

//go:nosplit
//go:norace
func noteChildless(o *orders) {
	o.record = record{kind: recordChildless, at: clock(o)}
	if o.fds[slotRecord] >= 0 {
		beginLine(o, wordChildless)
		putNumber(o, uint64(o.record.at))
		writeLine(o)
	}
	sendRecord(o, uintptr(o.fds[slotControl]))
}

// clock is CLOCK_REALTIME in nanoseconds.
//
//go:nosplit
//go:norace
func clock(o *orders) int64 {
	syscall.RawSyscall6(unix.SYS_CLOCK_GETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&o.now)), 0, 0, 0, 0)
	return o.now.Sec*1e9 + o.now.Nsec
}

// sendRecord sends o.record. It never waits: a keeper that does not read must
// not hold up a job. There is room for all that is ever sent.
//
//go:nosplit
//go:norace
func sendRecord(o *orders, fd uintptr) {
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&o.record)), recordSize, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}

// The words of the record file: see ReadRecord.
const (
	wordExit      = "exit"
	wordChildless = "childless"
	wordEnd       = " end\n"
)

//go:nosplit
//go:norace
func beginLine(o *orders, word string) {
	o.filled = 0
	if o.torn {
		// What is left of the last line must not run into this one.
		putText(o, "\n")
	}
	putText(o, word)
}

//go:nosplit
//go:norace
func putText(o *orders, s string) {
	for i := 0; i < len(s); i++ {
		o.line[o.filled&(128-1)] = s[i]
		o.filled++
	}
}

// putNumber adds a space and n.
//
//go:nosplit
//go:norace
func putNumber(o *orders, n uint64) {
	putText(o, " ")
	var digits [20]byte
	at := len(digits)
	for {
		at--
		if at < 0 {
			return
		}
		digits[at] = byte('0' + n%10)
		n /= 10
		if n == 0 {
			break
		}
	}
	for ; at < len(digits); at++ {
		o.line[o.filled&(128-1)] = digits[at]
		o.filled++
	}
}

//go:nosplit
//go:norace
func writeLine(o *orders) {
	putText(o, wordEnd)
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_WRITE, slotRecord, uintptr(unsafe.Pointer(&o.line)), o.filled, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		o.torn = errno == 0 && n != o.filled
		return
	}
}
