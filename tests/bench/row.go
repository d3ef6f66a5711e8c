package main

import "fmt"

// row is one measured figure beside what it is compared with.
type row struct {
	// Group is what was asked, Name who did it: together they name the row, in
	// every suite, for every user and in every commit.
	Group string `json:"group"`
	Name  string `json:"name"`
	// Unit is that of the figures: "ms", "jobs/s", "MiB".
	Unit string `json:"unit"`
	// P50 is the median, P95 what 95 % are no worse than: of rates, which are
	// the better the higher they are, it is the fifth percentile.
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	// N is how many figures there are; 0 where there is none.
	N       int          `json:"n"`
	Against []comparison `json:"against,omitempty"`
	// Lacking says why there are no figures; empty where there are.
	Lacking string `json:"lacking,omitempty"`
}

// comparison is the figure of a row beside that of another row, or by itself.
type comparison struct {
	// To is the name of the other row of the same group; empty is none, and
	// Value the median itself.
	To string `json:"to,omitempty"`
	// Value is the ratio of the medians; 0 where one of them is lacking.
	Value float64 `json:"value"`
	// AtMost and AtLeast bound the value; 0 is no bound.
	AtMost  float64 `json:"at_most,omitempty"`
	AtLeast float64 `json:"at_least,omitempty"`
}

// verdict says whether the bound is kept; it is empty where there is none.
func (c comparison) verdict() string {
	switch {
	case c.AtMost == 0 && c.AtLeast == 0:
		return ""
	case c.Value == 0:
		return "not measured"
	case c.AtMost != 0 && c.Value > c.AtMost, c.AtLeast != 0 && c.Value < c.AtLeast:
		return "MISSED"
	}
	return "reached"
}

// bound is the target as it stands in the table.
func (c comparison) bound() string {
	switch {
	case c.AtMost != 0:
		return fmt.Sprintf("≤ %.4g", c.AtMost)
	case c.AtLeast != 0:
		return fmt.Sprintf("≥ %.4g", c.AtLeast)
	}
	return ""
}

// series is what was measured of one row.
type series struct {
	name string
	// higher says that a figure is the better the higher it is.
	higher bool
	// against says what the row is compared with; its values are still open.
	against []comparison
	figures []float64
	lacking string
}

// rows makes rows of what was measured, and compares them.
func rows(group, unit string, all []*series) []row {
	median := map[string]float64{}
	for _, s := range all {
		if len(s.figures) > 0 {
			median[s.name] = quantile(s.figures, 50)
		}
	}
	var out []row
	for _, s := range all {
		r := row{Group: group, Name: s.name, Unit: unit, N: len(s.figures), Lacking: s.lacking}
		if r.N > 0 {
			r.P50, r.P95 = median[s.name], quantile(s.figures, 95)
			if s.higher {
				r.P95 = quantile(s.figures, 5)
			}
		}
		for _, c := range s.against {
			c.Value = r.P50
			if c.To != "" {
				c.Value = 0
				if base := median[c.To]; base > 0 {
					c.Value = r.P50 / base
				}
			}
			r.Against = append(r.Against, c)
		}
		out = append(out, r)
	}
	return out
}

// figure makes a row of one figure.
func (b *bench) figure(group, name, unit string, value float64, against ...comparison) {
	b.rows = append(b.rows, rows(group, unit, []*series{{name: name, figures: []float64{value}, against: against}})...)
}
