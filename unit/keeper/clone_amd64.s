#include "textflag.h"

// func cloneOnto(flags, stack, entry, arg uintptr) (pid int64)
TEXT ·cloneOnto(SB), NOSPLIT, $0-40
	MOVQ $56, AX // __NR_clone
	MOVQ flags+0(FP), DI
	MOVQ stack+8(FP), SI
	MOVQ $0, DX
	MOVQ $0, R10
	MOVQ $0, R8
	// The kernel leaves these two alone.
	MOVQ entry+16(FP), R12
	MOVQ arg+24(FP), R13
	SYSCALL
	TESTQ AX, AX
	JEQ child
	MOVQ AX, pid+32(FP)
	RET
child:
	// What a function of Go's internal ABI expects: its argument in AX and
	// zero in X15, and room above it to put the argument by. It does not look
	// at R14, which would be the goroutine.
	SUBQ $32, SP
	XORPS X15, X15
	XORL BP, BP
	MOVQ R13, AX
	CALL R12
	INT $3
