package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/unitward/unitward/cmd/internal/program"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/verify"
)

// duration reads a time as systemd.time(7) has it.
func duration(option, value string) (time.Duration, error) { return program.Duration(option, value) }

// size reads a number of bytes as systemd.syntax(7) has it.
func size(option, value string) (int64, error) {
	ps, err := property.Convert("MemorySwapMax", value) // which can be 0
	if err == nil {
		if v, ok := property.Last(ps, "MemorySwapMax"); ok {
			if n, ok := v.Value().(uint64); ok {
				return int64(min(n, 1<<62)), nil
			}
		}
	}
	return 0, &usageError{"cannot use --" + option + " " + quote(value) + ": it is not a size", "write it in bytes, or with K, M, G or T: 64M"}
}

// wrong is a mistake in an option's value.
func wrong(option, value string, err error) error {
	hint := ""
	if h := hints(err); len(h) > 0 {
		hint = h[0]
	}
	return &usageError{"cannot use --" + option + " " + quote(value) + ": " + err.Error(), hint}
}

func quote(s string) string { return strconv.Quote(s) }

// wholeNumber is the value of an option that takes one.
type wholeNumber struct {
	n     int
	given bool
}

// Set reads the number. That the text is no number is said by who calls it.
func (w *wholeNumber) Set(s string) (err error) {
	w.given = true
	if w.n, err = strconv.Atoi(s); err != nil {
		return errors.New("a whole number is expected")
	}
	return nil
}

// Type is what help says of an option without a word for its value.
func (w *wholeNumber) Type() string { return "number" }

// String is the value as help shows it, which has none to show.
func (w *wholeNumber) String() string {
	if !w.given {
		return ""
	}
	return strconv.Itoa(w.n)
}

func signalNumber(name string) int {
	n, _ := verify.SignalNumber(name)
	return n
}
