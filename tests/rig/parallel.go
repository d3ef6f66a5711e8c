package main

import "sync"

// inParallel calls f for 0 to n-1, at most width at a time. Where roomy is not nil,
// more than sure at a time begin only once it is true; it is asked again and again,
// and may take its time.
func inParallel(width, sure, n int, roomy func() bool, f func(int)) {
	slots := make(chan struct{}, max(width, 1))
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		for roomy != nil && len(slots) > sure && !roomy() {
		}
		wg.Go(func() {
			f(i)
			<-slots
		})
	}
	wg.Wait()
}
