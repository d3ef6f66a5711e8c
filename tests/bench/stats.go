package main

import (
	"math"
	"slices"
)

// quantile is the p-th percentile of figures, by nearest rank: one that was
// measured, never one between two. The figures stay as they are; there is at
// least one.
func quantile(figures []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
