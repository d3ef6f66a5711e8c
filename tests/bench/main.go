// bench measures unitward beside its peers on a machine with systemd: the
// commands take turns, so that all of them see the same machine, and what
// counts is the ratio of medians.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// peer is one command that is measured.
type peer struct {
	name string
	argv []string
	// base is the peer that its ratio is to.
	base *peer
	// target is the most that its ratio may be; 0 is none.
	target float64
	// over is the most that it may take more than its base; 0 is none.
	over time.Duration
	took []time.Duration
}

func main() {
	n := flag.Int("n", 100, "runs of each command")
	label := flag.String("label", "", "what the rows are about")
	what := flag.String("what", "peers", "what is measured: peers, many (2,000 jobs), serve (one connection), flood (much output), in a list")
	floodFor := flag.Duration("flood", time.Minute, "how long output is written")
	flag.Parse()
	if err := enterScope(); err != nil {
		fail(err)
	}
	manager := "--user"
	if os.Geteuid() == 0 {
		manager = "--system"
	}
	unitward := os.Getenv("UNITWARD_BIN")
	for _, w := range strings.Split(*what, ",") {
		var err error
		switch w {
		case "peers":
			err = run(unitward, manager, *n, *label)
		case "many":
			err = many(unitward, manager, *label)
		case "serve":
			err = serve(unitward, manager, *label)
		case "flood":
			err = flood(unitward, manager, *label, *floodFor)
		default:
			err = fmt.Errorf("cannot measure %q", w)
		}
		if err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	os.Exit(1)
}

// enterScope puts an ordinary user's benchmark where his programs are: in a
// scope of his own manager. From a cgroup of root's, as the rig's own, no
// process of a user can get into another one.
func enterScope() error {
	const variable = "UNITWARD_BENCH_IN_SCOPE"
	if os.Geteuid() == 0 || os.Getenv(variable) != "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path, err := exec.LookPath("systemd-run")
	if err != nil {
		return err
	}
	argv := append([]string{path, "--user", "--scope", "--collect", "--quiet", "--", self}, os.Args[1:]...)
	return syscall.Exec(path, argv, append(os.Environ(), variable+"=1"))
}

func run(unitward, manager string, n int, label string) error {
	service := &peer{name: "systemd-run --wait --pipe -q true", argv: []string{"systemd-run", manager, "--wait", "--pipe", "-q", "true"}}
	scope := &peer{name: "systemd-run --scope -q true", argv: []string{"systemd-run", manager, "--scope", "--collect", "-q", "true"}}
	plain := &peer{name: "fork + exec of true", argv: []string{"true"}}
	peers := []*peer{
		{name: "unitward run -- true", argv: []string{unitward, "run", manager, "--", "true"}, base: service},
		service,
		{name: "fork + exec of unitward --help", argv: []string{unitward, "run", "--help"}, base: service},
		scope,
		{name: "unitward run --isolation scope", argv: []string{unitward, "run", "--isolation", "scope", "--", "true"}, base: scope, target: 0.9},
		{name: "unitward run --isolation cgroup", argv: []string{unitward, "run", "--isolation", "cgroup", "--", "true"}, base: scope, target: 0.6},
		{name: "unitward run --isolation group", argv: []string{unitward, "run", "--isolation", "group", "--", "true"}, base: plain, over: 3 * time.Millisecond},
		plain,
	}
	const warmUp = 5
	for i := range warmUp + n {
		// In a fixed order each command would find the machine always as the
		// same other one left it: the manager awake, or its memory gone cold.
		for _, j := range rand.Perm(len(peers)) {
			p := peers[j]
			d, err := p.once()
			if err != nil {
				return fmt.Errorf("cannot measure %s: %w", p.name, err)
			}
			if i >= warmUp {
				p.took = append(p.took, d)
			}
		}
	}
	for _, p := range peers {
		fmt.Printf("%-34s %s\n", label, p)
	}
	for _, isolation := range []string{"scope", "cgroup", "group"} {
		m, err := keeperMemory(unitward, isolation)
		if err != nil {
			return fmt.Errorf("cannot measure the memory of isolation %s: %w", isolation, err)
		}
		fmt.Printf("%-34s %s\n", label, m)
	}
	return nil
}

func (p *peer) String() string {
	p50, p95 := quantile(p.took, 50), quantile(p.took, 95)
	s := fmt.Sprintf("%-36s p50 %6.2f ms  p95 %6.2f ms", p.name, ms(p50), ms(p95))
	if p.base == nil {
		return s + "  ratio 1.00"
	}
	base := quantile(p.base.took, 50)
	if p.over > 0 {
		return s + fmt.Sprintf("  over %s by %.2f ms, at most %.1f: %s", p.base.name, ms(p50-base), ms(p.over), verdict(p50-base <= p.over))
	}
	ratio := float64(p50) / float64(base)
	s += fmt.Sprintf("  ratio %.2f", ratio)
	if p.target > 0 {
		s += fmt.Sprintf(" to %s, at most %.1f: %s", p.base.name, p.target, verdict(ratio <= p.target))
	}
	return s
}

func verdict(ok bool) string {
	if ok {
		return "reached"
	}
	return "MISSED"
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
