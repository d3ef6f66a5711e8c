#include "textflag.h"

// func cloneVM(stack uintptr, area *guardArea) int64
//
// The child returns nowhere: it has a stack of its own, on which it calls
// guard. The kernel keeps every register but R0.
TEXT ·cloneVM(SB), NOSPLIT|NOFRAME, $0-24
	MOVD $0x111, R0 // CLONE_VM | SIGCHLD
	MOVD stack+0(FP), R1
	MOVD area+8(FP), R19
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD $220, R8 // __NR_clone
	SVC
	CBZ  R0, child
	MOVD R0, ret+16(FP)
	RET

child:
	MOVD R19, 8(RSP)
	CALL ·guard(SB)
	BRK
