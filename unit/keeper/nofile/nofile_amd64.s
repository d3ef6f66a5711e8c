#include "textflag.h"

// func prlimit(limit *[2]uint64) int64
TEXT ·prlimit(SB), NOSPLIT, $0-16
	MOVQ $302, AX // __NR_prlimit64
	MOVQ $0, DI   // this process
	MOVQ $7, SI   // RLIMIT_NOFILE
	MOVQ $0, DX   // no new limit
	MOVQ limit+0(FP), R10
	SYSCALL
	MOVQ AX, ret+8(FP)
	RET
