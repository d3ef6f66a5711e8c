package main

import (
	"slices"
	"testing"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		figures []float64
		p, want float64
	}{
		{[]float64{7}, 50, 7},
		{[]float64{7}, 95, 7},
		{[]float64{3, 1, 2}, 50, 2},
		{[]float64{4, 3, 2, 1}, 50, 2},
		{[]float64{4, 3, 2, 1}, 95, 4},
		{[]float64{20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 95, 19},
		{[]float64{20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5, 1},
		{[]float64{2, 1}, 0, 1},
	} {
		before := slices.Clone(c.figures)
		if got := quantile(c.figures, c.p); got != c.want {
			t.Errorf("the %v-th percentile of %v: %v, want %v", c.p, c.figures, got, c.want)
		}
		if !slices.Equal(before, c.figures) {
			t.Errorf("the figures were put into another order: %v", c.figures)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		comparison
		verdict, bound string
	}{
		{comparison{Value: 0.5}, "", ""},
		{comparison{Value: 0.8, AtMost: 0.8}, "reached", "≤ 0.8"},
		{comparison{Value: 0.81, AtMost: 0.8}, "MISSED", "≤ 0.8"},
		{comparison{Value: 0.95, AtLeast: 0.95}, "reached", "≥ 0.95"},
		{comparison{Value: 0.94, AtLeast: 0.95}, "MISSED", "≥ 0.95"},
		{comparison{AtMost: 0.8}, "not measured", "≤ 0.8"},
	} {
		if got := c.comparison.verdict(); got != c.verdict {
			t.Errorf("verdict of %+v: %q, want %q", c.comparison, got, c.verdict)
		}
		if got := c.comparison.bound(); got != c.bound {
			t.Errorf("bound of %+v: %q, want %q", c.comparison, got, c.bound)
		}
	}
}

func TestRows(t *testing.T) {
	got := rows("latency", "ms", []*series{
		{name: "a", figures: []float64{4, 2, 3}, against: []comparison{{To: "b", AtMost: 0.8}, {To: "absent", AtMost: 1}, {AtMost: 2}}},
		{name: "b", figures: []float64{6}},
		{name: "absent", lacking: "cannot find absent"},
		{name: "rate", higher: true, figures: []float64{1, 2, 3}},
	})
	a := got[0]
	if a.P50 != 3 || a.P95 != 4 || a.N != 3 || a.Group != "latency" || a.Unit != "ms" {
		t.Errorf("a: %+v", a)
	}
	var values []float64
	for _, c := range a.Against {
		values = append(values, c.Value)
	}
	if want := []float64{0.5, 0, 3}; !slices.Equal(values, want) {
		t.Errorf("a beside the others: %v, want %v", values, want)
	}
	if r := got[2]; r.N != 0 || r.Lacking != "cannot find absent" {
		t.Errorf("absent: %+v", r)
	}
	if r := got[3]; r.P50 != 2 || r.P95 != 1 {
		t.Errorf("the worst of a rate is the lowest: %+v", r)
	}
}
