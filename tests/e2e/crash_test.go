package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// crashesVariable is how many points of each isolation and each thing that is
// killed are taken: a number, or all. crashSeed is what draws them.
const (
	crashesVariable = "UNITWARD_TEST_CRASHES"
	crashSeed       = "UNITWARD_TEST_SEED"
)

// every is more than there are.
const every = 1 << 30

// matrix is one kind of crash in one isolation.
type matrix struct {
	t       *testing.T
	w       *ward
	dir     func(t *testing.T) string
	rnd     *rand.Rand
	manager int // is traced, for what it executes of unitward; 0 is not
	// takes says which points count.
	takes  func(l life, p point) bool
	strike func(t testing.TB)
	mend   func(t testing.TB)
	trials int
}

// spot is a point in a life.
type spot struct {
	life
	point
}

// TestCrashes kills, at every fault point, the process that stands there:
// launcher, keeper, reaper, guard, the main process before its exec, the
// recorder, whoever waits for the job and whoever stops it.
func TestCrashes(t *testing.T) {
	needRig(t) // a search of /proc under a tracer is long on a busy host
	in(t, all, func(t *testing.T, w *ward) {
		m := newMatrix(t, w, 3)
		if w.isolation == verify.IsolationService && os.Geteuid() == 0 {
			m.manager = managerPID(t)
		}
		m.takes = func(life, point) bool { return true }
		m.run()
	})
}

// TestDisturbedCrashes kills the broker, and has the manager execute itself
// anew, while somebody of unitward stands at a fault point.
func TestDisturbedCrashes(t *testing.T) {
	for _, d := range disturbances {
		if d.name != "broker killed" && d.name != "daemon-reexec" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			in(t, []string{verify.IsolationService, verify.IsolationScope}, func(t *testing.T, w *ward) {
				m := newMatrix(t, w, 2)
				m.takes, m.strike, m.mend = talks, d.do, settleDown
				m.run()
			})
		})
	}
}

// TestDisturbedManagerCrashes kills the user's manager, and with it what runs in
// its cgroup, while somebody of unitward stands at a fault point.
func TestDisturbedManagerCrashes(t *testing.T) {
	needRootToKillManager(t)
	for _, isolation := range []string{verify.IsolationService, verify.IsolationScope} {
		t.Run(isolation, func(t *testing.T) {
			w := asTester(t, testerDir(t))
			w.isolation = isolation
			t.Cleanup(func() { userManagerUp(t) })
			m := newMatrix(t, w, 3)
			m.dir = testerDir
			m.takes, m.strike, m.mend = talks, killUserManager, userManagerUp
			m.run()
		})
	}
}

// talks is true for the points of whoever speaks to a manager.
func talks(_ life, p point) bool {
	return slices.Contains([]string{"start", "run", "stop", "wait", "keeper"}, p.Role)
}

func newMatrix(t *testing.T, w *ward, sample int) *matrix {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(crashSeed); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	switch s := os.Getenv(crashesVariable); s {
	case "":
	case "all":
		sample = every
	default:
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		sample = n
	}
	t.Logf("seed %d", seed)
	return &matrix{t: t, w: w, rnd: rand.New(rand.NewPCG(seed, 4)), trials: sample, dir: func(t *testing.T) string { return t.TempDir() }}
}

// run counts the points, and then strikes at as many as it may.
func (m *matrix) run() {
	var spots []spot
	n := 0
	counts := map[string]int{}
	taken := slices.Clone(lives)
	if m.trials < every {
		// To find the points of a life takes longer than to strike at one of them.
		m.rnd.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
		taken = taken[:min(len(taken), m.trials)]
	}
	for _, l := range taken {
		n++
		for _, p := range m.points(l, n) {
			// The ways of an end begin alike.
			if p.Phase == "start" && l.end != "settle" || !m.takes(l, p) {
				continue
			}
			spots = append(spots, spot{l, p})
			counts[fmt.Sprintf("%-14s %-6s %s", l, p.Phase, p.Role)]++
		}
	}
	if m.t.Failed() {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		m.t.Logf("%5d points: %s", counts[what], what)
	}
	total := len(spots)
	m.rnd.Shuffle(len(spots), func(i, j int) { spots[i], spots[j] = spots[j], spots[i] })
	spots = spots[:min(len(spots), m.trials)]
	outcomes, missed := map[string]int{}, 0
	for _, s := range spots {
		n++
		c := newCrash(m.t, m.w, s.life, n, m.dir(m.t))
		c.strike, c.mend = m.strike, m.mend
		began := time.Now()
		c.run(s.point, m.manager)
		if took := time.Since(began); took > 3*time.Second {
			m.t.Logf("%5.1f s: %s %s: %s", took.Seconds(), s.life, s.point, strings.Join(c.states, ", then "))
		}
		if m.t.Failed() {
			m.t.Fatalf("%s %s", s.life, s.point)
		}
		if !c.struck {
			missed++
			continue
		}
		outcomes[strings.Join(c.states, ", then ")]++
		os.RemoveAll(c.dir)
	}
	m.t.Logf("%d points, %d of them struck at, %d not come by again", total, len(spots)-missed, missed)
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		m.t.Logf("%5d %s", outcomes[o], o)
	}
}

// points are the fault points of a life in which nothing is killed.
func (m *matrix) points(l life, n int) []point {
	m.t.Helper()
	c := newCrash(m.t, m.w, l, n, m.dir(m.t))
	c.run(point{}, m.manager)
	if len(c.states) != 1 || c.states[0] != "ended, proven" {
		m.t.Errorf("without a crash it is %v\n%s", c.states, c)
	}
	return c.x.points()
}
