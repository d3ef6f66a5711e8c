package capture

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// segments is how many files the tail has when it is full. When one is
	// given up, an eighth of the tail goes.
	segments = 8
	// maxSegments bounds the number of files when errors cut them short.
	maxSegments = 16
	// retryAfter is how long a disk that refused is left alone.
	retryAfter = time.Second
	// markAfter is how far apart notes of a position are when nothing is kept.
	markAfter = time.Second
)

// shelf is what is kept of one stream on disk, and the state of it. It is for
// one goroutine.
type shelf struct {
	disk   disk
	stream Stream
	cap    int64

	// off is how many bytes of the stream were seen.
	off int64
	// fd is the file that is being written to, from its byte size on, up to
	// max; -1 is none. Its first byte is byte start of the stream.
	fd               int
	start, size, max int64
	// inHead is true until the first file is done with.
	inHead bool
	head   int64
	// tail are the segments that are done with, the oldest first; tailSize is
	// the sum of their sizes.
	tail     []segment
	tailSize int64
	// stale is true when the next segment takes the place of all of tail.
	stale bool

	// marker is the offset in the name of an empty file that says how far the
	// stream has come; -1 is none.
	marker   int64
	markedAt time.Time

	// err is the latest error of the disk.
	err   error
	errAt time.Time
	// retryAt is when the disk may be tried again; the zero time is now.
	// spareAt is when a segment may again be given up for lack of space.
	retryAt, spareAt time.Time
}

type segment struct {
	start, size int64
}

func newShelf(d disk, s Stream, limit int64, now time.Time) *shelf {
	h := &shelf{disk: d, stream: s, cap: limit, fd: -1, marker: -1, inHead: true, max: limit / 2}
	fd, err := d.create(string(s))
	if err != nil {
		h.inHead = false
		h.note(err, now)
		return h
	}
	h.fd = fd
	if h.max == 0 {
		unix.Close(fd)
		h.fd, h.inHead = -1, false
	}
	return h
}

// tailMax is what the head leaves of the cap.
func (h *shelf) tailMax() int64 { return h.cap - h.head }

// segmentMax is the size of a whole segment; 0 when there can be none.
func (h *shelf) segmentMax() int64 {
	t := h.tailMax()
	return t / max(min(t, segments), 1)
}

// span is how many bytes of a stream the tail certainly holds. Of more than
// that at once, the first would be removed with the next.
func (h *shelf) span() int64 {
	t := h.tailMax()
	return h.segmentMax() * min(t, segments)
}

// kept is how many bytes are on disk.
func (h *shelf) kept() int64 {
	k := h.head + h.tailSize
	if h.fd >= 0 {
		k += h.size
	}
	return k
}

// full is true when the next byte needs a new file.
func (h *shelf) full() bool { return h.fd < 0 || h.size >= h.max }

// room is the file for the next bytes, how many it takes, and where. ok is
// false when nothing can be kept now.
func (h *shelf) room(now time.Time) (fd int, at, n int64, ok bool) {
	if h.full() {
		if h.fd >= 0 {
			h.finish()
		}
		if h.segmentMax() == 0 || now.Before(h.retryAt) {
			return -1, 0, 0, false
		}
		for h.fd < 0 {
			if err := h.begin(); err != nil {
				h.failed(err, now)
				if now.Before(h.retryAt) {
					return -1, 0, 0, false
				}
			}
		}
	}
	return h.fd, h.size, h.max - h.size, true
}

// begin begins a segment. The file is made first: from then on the position
// is on disk. Then there is made room for it.
func (h *shelf) begin() error {
	name := segmentName(h.stream, h.off)
	fd, err := h.disk.create(name)
	if err != nil {
		return err
	}
	n := h.segmentMax()
	for len(h.tail) > 0 && (h.stale || h.tailSize+n > h.tailMax() || len(h.tail) >= maxSegments-1) {
		if err := h.dropOldest(); err != nil {
			unix.Close(fd)
			_ = h.disk.remove(name) // an empty one says nothing wrong
			return err
		}
	}
	if h.marker >= 0 && h.marker != h.off {
		_ = h.disk.remove(segmentName(h.stream, h.marker)) // it was right, too
	}
	h.marker, h.stale = -1, false
	h.fd, h.start, h.size, h.max = fd, h.off, 0, n
	return nil
}

func (h *shelf) dropOldest() error {
	s := h.tail[0]
	if err := h.disk.remove(segmentName(h.stream, s.start)); err != nil {
		return err
	}
	h.tail = append(h.tail[:0], h.tail[1:]...)
	h.tailSize -= s.size
	return nil
}

// finish is done with the file that is being written to. An empty segment
// becomes the marker.
func (h *shelf) finish() {
	unix.Close(h.fd)
	h.fd = -1
	switch {
	case h.inHead:
		h.inHead, h.head = false, h.size
	case h.size > 0:
		h.tail = append(h.tail, segment{h.start, h.size})
		h.tailSize += h.size
	default:
		h.marker = h.start
	}
}

// wrote counts bytes that went to the place that room gave.
func (h *shelf) wrote(n int64) {
	h.size += n
	h.off += n
}

// drop counts bytes that were not kept. What comes next is in another file.
func (h *shelf) drop(n int64) {
	if n > 0 && h.fd >= 0 {
		h.finish()
	}
	h.off += n
}

// skip counts bytes that are not kept because as many as the tail holds follow
// them.
func (h *shelf) skip(n int64) {
	h.drop(n)
	h.stale = true
}

// failed is told that the disk refused.
func (h *shelf) failed(err error, now time.Time) {
	grown := h.fd >= 0 && h.size > 0
	if h.fd >= 0 {
		// What was written without being counted would not be the bytes that
		// come next.
		var st unix.Stat_t
		if unix.Fstat(h.fd, &st) == nil && st.Size > h.size {
			_ = unix.Ftruncate(h.fd, h.size)
		}
		h.finish()
	}
	if errors.Is(err, unix.EFBIG) && grown {
		return // one file can have no more (RLIMIT_FSIZE); the next one can
	}
	h.note(err, now)
	if (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && len(h.tail) > 1 && !now.Before(h.spareAt) {
		// The newest is worth more than the oldest. Not all of it at once:
		// some file systems give free what was removed only later.
		h.spareAt = now.Add(retryAfter)
		if h.dropOldest() == nil {
			h.retryAt = time.Time{}
		}
	}
}

func (h *shelf) note(err error, now time.Time) {
	h.err, h.errAt, h.retryAt = err, now, now.Add(retryAfter)
}

// markAt is when the position is to be noted on disk; the zero time is never.
func (h *shelf) markAt() time.Time {
	if h.position() == h.off {
		return time.Time{}
	}
	return h.markedAt.Add(markAfter)
}

// position is how far the stream has come by what is on disk.
func (h *shelf) position() int64 {
	switch n := len(h.tail); {
	case h.fd >= 0:
		return h.start + h.size
	case n > 0:
		return max(h.tail[n-1].start+h.tail[n-1].size, h.marker)
	}
	return max(h.head, h.marker)
}

// mark notes the position on disk, where no file with bytes says it.
func (h *shelf) mark(now time.Time) {
	h.markedAt = now
	if h.position() == h.off {
		return
	}
	name := segmentName(h.stream, h.off)
	if h.marker >= 0 && h.disk.rename(segmentName(h.stream, h.marker), name) == nil {
		h.marker = h.off
		return
	}
	if fd, err := h.disk.create(name); err == nil {
		unix.Close(fd)
		h.marker = h.off
	}
}

// end is done with the stream. closed says that nothing more can come.
func (h *shelf) end(closed bool, now time.Time) {
	if h.fd >= 0 {
		h.finish()
	}
	if !closed {
		h.mark(now)
		return
	}
	if fd, err := h.disk.create(endName(h.stream, h.off)); err == nil {
		unix.Close(fd)
	} else {
		h.note(err, now)
	}
}
