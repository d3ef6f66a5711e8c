package keeper

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Recorded is what a reaper wrote down with Command.Record.
type Recorded struct {
	// Exit is how the main process ended; not Known if nothing is written yet.
	// One that could not execute the command, or whose keeper was gone before
	// Execute, ends with the exit status 125 without ever having been it.
	Exit Exit
	// ChildlessAt is when no process of the job was left; zero if it is not
	// written yet.
	ChildlessAt time.Time
}

// maxRecorded bounds the file, of which a reaper writes less than 200 bytes.
const maxRecorded = 4096

// ReadRecord reads the file of Command.Record:
//
//	exit STATUS TIME CPU MAXRSS end
//	childless TIME end
//
// with the wait status, CLOCK_REALTIME and the CPU time in nanoseconds, and
// MAXRSS in KiB. A line counts when it is whole, to its last word and newline:
// one that was torn, as on a full disk, is passed over. The error is that of
// reading, or says which line is none of a reaper's.
func ReadRecord(r io.Reader) (Recorded, error) {
	var out Recorded
	b, err := io.ReadAll(io.LimitReader(r, maxRecorded))
	if err != nil {
		return out, fmt.Errorf("cannot read the record of a job's end: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		line, whole := strings.CutSuffix(line, wordEnd)
		if !whole {
			continue
		}
		words := strings.Split(line, " ")
		n := make([]int64, 0, 4)
		for _, w := range words[1:] {
			if v, err := strconv.ParseInt(w, 10, 64); err == nil && v >= 0 {
				n = append(n, v)
			}
		}
		switch {
		case words[0] == wordExit && len(words) == 5 && len(n) == 4 && n[0] <= 0xffff:
			out.Exit = Exit{true, syscall.WaitStatus(n[0]), time.Unix(0, n[1]), time.Duration(n[2]), n[3]}
		case words[0] == wordChildless && len(words) == 2 && len(n) == 1:
			out.ChildlessAt = time.Unix(0, n[0])
		default:
			return Recorded{}, fmt.Errorf("cannot understand the record of a job's end: %q", line)
		}
	}
	return out, nil
}

// noteExit and noteChildless write to the record what its reaper did not live
// to write, or perhaps did: the last line of a kind counts. They begin a line
// of their own, as the reaper's can be torn. What cannot be written is known
// to this process alone, as it would be to a reaper.

func (r *Reaper) noteExit() {
	if r.note != nil {
		e := r.exit
		fmt.Fprintf(r.note, "\n%s %d %d %d %d%s", wordExit, uint32(e.Status), e.At.UnixNano(), int64(e.CPU), e.MaxRSS, wordEnd)
	}
}

func (r *Reaper) noteChildless() {
	if r.note != nil {
		fmt.Fprintf(r.note, "\n%s %d%s", wordChildless, r.emptyAt.UnixNano(), wordEnd)
	}
}
