package serve

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A ring has the newest bytes of all that was written, in any order of things.
func TestRing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		p := &pool{}
		r := &ring{pool: p, most: minRing * 4}
		var all []byte
		for range 50 {
			b := make([]byte, rnd.IntN(minRing*3))
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			r.write(b)
			all = append(all, b...)
			if rnd.IntN(10) == 0 {
				r.settle()
			}
			place := int64(rnd.IntN(len(all) + 1))
			got := make([]byte, rnd.IntN(minRing*5))
			n, from := r.read(got, place)
			if from != max(place, r.begin) || r.end != int64(len(all)) || !bytes.Equal(got[:n], all[from:from+int64(n)]) ||
				n < len(got) && from+int64(n) != r.end || r.end-r.begin > int64(r.most) {
				t.Fatalf("read(%d, %d) = %d, %d of %d to %d", len(got), place, n, from, r.begin, r.end)
			}
			if p.used.Load() != int64(len(r.buf)) {
				t.Fatalf("the pool counts %d, the ring has %d", p.used.Load(), len(r.buf))
			}
		}
		if r.drop(); p.used.Load() != 0 {
			t.Fatalf("%d are left", p.used.Load())
		}
	}
	// Without room nothing is kept, and everything counted.
	p := &pool{}
	p.used.Store(maxRings)
	r := &ring{pool: p, most: maxRing}
	r.write([]byte("abc"))
	if r.begin != 3 || r.end != 3 {
		t.Errorf("%+v", r)
	}
}

func TestTokensAreForgotten(t *testing.T) {
	s := New(Config{})
	at := time.Now()
	for i := range maxTokens + 5 {
		s.refuse(strings.Repeat("t", i%100+1)+string(rune('a'+i/100)), at)
	}
	if len(s.refused) != maxTokens {
		t.Errorf("%d are remembered", len(s.refused))
	}
	if s.refuse("x", at); !s.wasRefused("x", at.Add(tokenTime-1)) || s.wasRefused("x", at.Add(tokenTime)) || len(s.refused) != 0 {
		t.Error("their time is wrong")
	}
}

// A job is forgotten with the tokens of all starts that came to it.
func TestTokensOfJobs(t *testing.T) {
	s := New(Config{MaxRunning: 1})
	j := &job{s: s, name: "a", at: time.Now()}
	s.remember(j)
	comes := func(token string) {
		st := &start{token: token, cancel: func() {}, done: make(chan struct{})}
		if fault := s.note(st); fault != nil {
			t.Fatal(fault)
		}
		s.ended(st, j)
	}
	comes("own")
	comes("joined")
	comes("")
	s.retired = append(s.retired, j)
	if len(s.tokens) != 2 || s.tokens["own"].job != j {
		t.Errorf("%d tokens", len(s.tokens))
	}
	s.prune(j.at.Add(2 * settledTime))
	comes("late")
	if len(s.tokens) != 0 {
		t.Errorf("%d tokens stay", len(s.tokens))
	}
}

func TestSettledJobsAreForgotten(t *testing.T) {
	s := New(Config{MaxRunning: 1})
	at := time.Now()
	for i := range maxSettled + 5 {
		j := &job{s: s, name: strings.Repeat("j", i+1), at: at}
		s.jobs[j.name] = j
		s.retired = append(s.retired, j)
	}
	if dropped := s.prune(at); len(dropped) != 5 || len(s.jobs) != maxSettled || s.jobs["j"] != nil {
		t.Errorf("%d were dropped", len(dropped))
	}
	if s.prune(at.Add(settledTime)); len(s.jobs) != maxSettled {
		t.Error("too early")
	}
	if s.prune(at.Add(settledTime + 1)); len(s.jobs) != 0 {
		t.Errorf("%d stay", len(s.jobs))
	}
}
