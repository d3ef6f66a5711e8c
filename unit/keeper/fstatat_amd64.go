package keeper

import "golang.org/x/sys/unix"

// sysFstatat is fstatat(2), which the machines call differently.
const sysFstatat = unix.SYS_NEWFSTATAT
