package main

import "sync"

// inParallel calls f for 0 to n-1, at most width at a time.
func inParallel(width, n int, f func(int)) {
	slots := make(chan struct{}, max(width, 1))
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			f(i)
			<-slots
		})
	}
	wg.Wait()
}
