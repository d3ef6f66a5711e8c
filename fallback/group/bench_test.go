package group

import (
	"testing"
)

// What a query of a group that is gone costs, for each process of the host.
func BenchmarkLookAndScan(b *testing.B) {
	j, err := launch(nil)
	if err != nil {
		b.Fatal(err)
	}
	j.hold.Close()
	j.say.Close()
	j.cmd.Wait()
	pids, err := j.dir.PIDs()
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func(){"look": func() { j.Look() }, "scan": func() { j.Scan(jobName, patient()) }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(pids)), "µs/process")
		})
	}
}
