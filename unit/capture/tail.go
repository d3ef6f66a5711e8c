package capture

import (
	"bytes"
	"errors"
)

// tailBlock is how much is looked at at once on the way back.
const tailBlock = 64 << 10

// Tail is the offset at which the newest lines begin, of those that are kept.
// A line that has no end yet counts as one. It reads backwards no further than
// it has to, with memory that does not depend on the lines. 0 lines are at the
// end of the stream. The errors are those of ReadAt.
func (r *Reader) Tail(lines int) (offset int64, err error) {
	if err := r.look(); err != nil {
		return 0, err
	}
	size := r.seen.size()
	if lines <= 0 {
		return size, nil
	}
	// kept is the end of the last byte that is kept.
	kept := int64(0)
	for _, f := range r.seen.files {
		if f.size > 0 {
			kept = max(kept, f.start+f.size)
		}
	}
	first := size
	var block [tailBlock]byte
	for i := len(r.seen.files) - 1; i >= 0; i-- {
		f := r.seen.files[i]
		for end := f.size; end > 0; {
			at := max(end-tailBlock, 0)
			b := block[:end-at]
			for got := 0; got < len(b); {
				n, err := r.read(f.name, b[got:], at+int64(got))
				if errors.Is(err, errGone) || err == nil && n == 0 {
					return first, nil // what is older goes as well
				}
				if err != nil {
					return 0, err
				}
				got += n
			}
			for end = at; len(b) > 0; {
				nl := bytes.LastIndexByte(b, '\n')
				if nl < 0 {
					break
				}
				after := f.start + at + int64(nl) + 1
				if after < kept { // the last of all ends a line and begins none
					if lines--; lines == 0 {
						return after, nil
					}
				}
				b = b[:nl]
			}
			first = f.start + at
		}
	}
	return first, nil
}
