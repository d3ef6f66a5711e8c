#include "textflag.h"

// func cloneVM(stack uintptr, area *guardArea) int64
//
// The child returns nowhere: it has a stack of its own, on which it calls
// guard. The kernel keeps every register but AX, CX and R11.
TEXT ·cloneVM(SB), NOSPLIT, $0-24
	MOVQ $0x111, DI // CLONE_VM | SIGCHLD
	MOVQ stack+0(FP), SI
	MOVQ area+8(FP), R12
	MOVQ $0, DX
	MOVQ $0, R10
	MOVQ $0, R8
	MOVQ $56, AX // __NR_clone
	SYSCALL
	CMPQ AX, $0
	JEQ  child
	MOVQ AX, ret+16(FP)
	RET

child:
	MOVQ R12, 0(SP)
	CALL ·guard(SB)
	INT  $3
