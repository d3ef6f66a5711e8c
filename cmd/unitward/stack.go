package main

import "os"

// deepen makes the stack of its goroutine as deep as it will have to be. Else it
// is doubled four times on the way there, and each time all that is on it is
// moved: a thirtieth of what a short job costs.
//
//go:noinline
func deepen() byte {
	var room [20 << 10]byte
	return room[len(os.Args)&1]
}
