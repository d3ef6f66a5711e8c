package dbusclient

import (
	"bytes"
	"fmt"
	"testing"
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
