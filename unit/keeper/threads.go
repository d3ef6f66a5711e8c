package keeper

import (
	"runtime"
	"sync"
)

// SpareThreads sees to it that this process has n threads besides the calling one that
// run Go code, and can be idle. The runtime ends no thread, and makes one when all
// that it has wait for the kernel: where it cannot, because of a limit to the number
// of tasks (TasksMax=, RLIMIT_NPROC), it ends the process. So who stays beside a
// command makes all that it will ever need before that can use up what is allowed.
func SpareThreads(n int) {
	var made sync.WaitGroup
	done := make(chan struct{})
	for range n {
		made.Add(1)
		go func() {
			runtime.LockOSThread() // as long as it waits, nothing else is run by its thread
			defer runtime.UnlockOSThread()
			made.Done()
			<-done
		}()
	}
	made.Wait()
	close(done)
}
