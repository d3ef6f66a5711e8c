package program

import (
	"strconv"
	"time"

	"github.com/unitward/unitward/dbusclient/property"
)

// forEver is what "infinity" stands for.
const forEver = time.Duration(1<<63 - 1)

// Duration reads the value of an option that takes a time, as systemd.time(7)
// has it. The error is an *Error.
func Duration(option, value string) (time.Duration, error) {
	ps, err := property.Convert("RuntimeMaxSec", value)
	if err == nil {
		if v, ok := property.Last(ps, "RuntimeMaxUSec"); ok {
			if usec, ok := v.Value().(uint64); ok {
				if usec > uint64(forEver/time.Microsecond) {
					return forEver, nil
				}
				return time.Duration(usec) * time.Microsecond, nil
			}
		}
	}
	return 0, &Error{"cannot use --" + option + " " + strconv.Quote(value) + ": it is not a time", "write it as in systemd.time(7): 90s, 5min, 1h 30min, 500ms"}
}
