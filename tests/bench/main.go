// bench measures unitward beside its peers on a machine with systemd: the
// commands take turns, so that all of them see the same machine, and what
// counts is the ratio of medians.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

// peer is one command that is measured.
type peer struct {
	name string
	argv []string
	took []time.Duration
}

func main() {
	n := flag.Int("n", 100, "runs of each command")
	label := flag.String("label", "", "what the rows are about")
	flag.Parse()
	manager := "--user"
	if os.Geteuid() == 0 {
		manager = "--system"
	}
	unitward := os.Getenv("UNITWARD_BIN")
	peers := []*peer{
		{name: "unitward run -- true", argv: []string{unitward, "run", manager, "--", "true"}},
		{name: "systemd-run --wait --pipe -q true", argv: []string{"systemd-run", manager, "--wait", "--pipe", "-q", "true"}},
		{name: "fork + exec of unitward --help", argv: []string{unitward, "run", "--help"}},
	}
	const warmUp = 5
	for i := range warmUp + *n {
		for _, p := range peers {
			d, err := p.once()
			if err != nil {
				fmt.Fprintf(os.Stderr, "bench: cannot measure %s: %v\n", p.name, err)
				os.Exit(1)
			}
			if i >= warmUp {
				p.took = append(p.took, d)
			}
		}
	}
	base := quantile(peers[1].took, 50)
	for _, p := range peers {
		p50, p95 := quantile(p.took, 50), quantile(p.took, 95)
		fmt.Printf("%-34s %-36s p50 %6.2f ms  p95 %6.2f ms  ratio %.2f\n", *label, p.name, ms(p50), ms(p95), float64(p50)/float64(base))
	}
}

func (p *peer) once() (time.Duration, error) {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return took, err
}

// quantile sorts the durations and returns the p-th percentile.
func quantile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[(len(d)-1)*p/100]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
