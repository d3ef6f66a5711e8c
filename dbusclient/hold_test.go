package dbusclient

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/unitward/unitward/unit"
)

// A few units are followed one by one; for many the bus is asked once.
func TestManyUnitsAreFollowedTogether(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{pump: newPump(), link: &link{wire: p.wire, addr: busAt("/b")}}
	var units []*Unit
	for i := range 3 * manyUnits {
		units = append(units, c.unit(fmt.Sprintf("u%02d.service", i)))
		c.claim(units[i])
	}
	for _, u := range units {
		u.Close()
	}
	// Whoever follows one of few again is told of that one.
	c.claim(units[0])
	_ = p.wire.flush()
	got, _ := p.read(func(b []byte) bool { return bytes.Count(b, []byte("u00.service")) == 3 })
	each := func(member, rule string) int {
		n := 0
		for _, part := range bytes.Split(got, []byte(member))[1:] {
			if at := bytes.Index(part, []byte("type='signal'")); at >= 0 && bytes.HasPrefix(part[at:], []byte(rule)) {
				n++
			}
		}
		return n
	}
	for _, x := range []struct {
		member, rule string
		want         int
	}{
		{"AddMatch", matchUnits, 1}, {"AddMatch", matchAllJobs + "\x00", 1},
		{"RemoveMatch", matchUnits, 1}, {"RemoveMatch", matchAllJobs + "\x00", 1},
	} {
		if n := each(x.member, x.rule); n != x.want {
			t.Errorf("%d times %s of %s, want %d", n, x.member, x.rule, x.want)
		}
	}
	if n := bytes.Count(got, []byte("AddMatch")); n != 2*manyUnits+2+2 {
		t.Errorf("%d rules were set", n)
	}
	if n := bytes.Count(got, []byte("RemoveMatch")); n != 2*manyUnits+2 {
		t.Errorf("%d rules were dropped", n)
	}
}

// What the system's manager watches for one connection is bounded, and what is let
// go of makes room. A user's own manager has a bus that allows for more.
func TestSystemManagerIsNotOverburdened(t *testing.T) {
	for _, x := range []struct {
		manager            unit.Manager
		held, stops, knows int
	}{{unit.ManagerSystem, mostHeld, mostStops, manyHeld}, {unit.ManagerUser, 2 * mostHeld, 2 * mostHeld, 2 * mostHeld}} {
		p, err := connect(t, consents)
		if err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, p.conn)
		c := &Client{manager: x.manager, pump: newPump(), link: &link{wire: p.wire, addr: busAt("/b")}}
		fill := func() (units []*Unit, held, stops, knows int) {
			for i := range 2 * mostHeld {
				u := c.unit(fmt.Sprintf("u%03d.service", i))
				units = append(units, u)
				if c.References() {
					knows++
				}
				if _, ref := c.claim(u); ref {
					held++
				}
				first := u.MayStop()
				if again := u.MayStop(); first && again { // it counts once
					stops++
				}
			}
			return units, held, stops, knows
		}
		for range 2 {
			units, held, stops, knows := fill()
			if held != x.held || stops != x.stops || knows != x.knows {
				t.Errorf("%s: %d are held, %d stopped, and %d times there was room; want %+v", x.manager, held, stops, knows, x)
			}
			for _, u := range units {
				u.Close()
				u.Close()
			}
		}
	}
}
