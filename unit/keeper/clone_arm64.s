#include "textflag.h"

// func cloneOnto(flags, stack, entry, arg uintptr) (pid int64)
TEXT ·cloneOnto(SB), NOSPLIT, $0-40
	MOVD $220, R8 // __NR_clone
	MOVD flags+0(FP), R0
	MOVD stack+8(FP), R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	// The kernel leaves these two alone.
	MOVD entry+16(FP), R20
	MOVD arg+24(FP), R21
	SVC
	CBZ R0, child
	MOVD R0, pid+32(FP)
	RET
child:
	// What a function of Go's internal ABI expects: its argument in R0, and
	// room above it to put that by. It does not look at R28, which would be
	// the goroutine.
	SUB $64, RSP
	MOVD $0, R29
	MOVD R21, R0
	CALL (R20)
	BRK
