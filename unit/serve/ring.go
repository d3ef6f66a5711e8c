package serve

import "sync/atomic"

const (
	// maxRing is how much of a stream's output is kept in memory.
	maxRing = 1 << 20
	// minRing is what the first byte of a stream costs.
	minRing = 4 << 10
	// maxRings is what all rings together may have.
	maxRings = 64 << 20
)

// pool is the memory that rings may have together. It is for any goroutine.
type pool struct {
	used atomic.Int64
	// reclaim makes room, and is false when there is none to make; it may be
	// nil.
	reclaim func() bool
}

// take is true when there was room for n bytes more.
func (p *pool) take(n int) bool {
	for {
		if p.used.Add(int64(n)) <= maxRings {
			return true
		}
		p.used.Add(-int64(n))
		if p.reclaim == nil || !p.reclaim() {
			return false
		}
	}
}

func (p *pool) give(n int) { p.used.Add(-int64(n)) }

// ring keeps the newest bytes of a stream. It grows as it is filled, as long as
// the pool has room; then the oldest bytes give way. Its owner locks it.
type ring struct {
	pool *pool
	most int
	buf  []byte
	// end is how many bytes the stream has had, begin the place of the oldest
	// that is kept.
	begin, end int64
}

// write adds bytes.
func (r *ring) write(p []byte) {
	r.grow(len(p))
	if len(r.buf) == 0 {
		r.end += int64(len(p))
		r.begin = r.end
		return
	}
	if over := len(p) - len(r.buf); over > 0 {
		r.end += int64(over)
		p = p[over:]
	}
	for len(p) > 0 {
		at := int(r.end % int64(len(r.buf)))
		n := copy(r.buf[at:], p)
		p = p[n:]
		r.end += int64(n)
	}
	r.begin = max(r.begin, r.end-int64(len(r.buf)))
}

// grow makes room for n bytes more, as far as there is any to have.
func (r *ring) grow(n int) {
	need := int(r.end-r.begin) + n
	size := max(len(r.buf), minRing)
	for size < need && size < r.most {
		size *= 2
	}
	if size = min(size, r.most); size <= len(r.buf) || !r.pool.take(size-len(r.buf)) {
		return
	}
	r.resize(size)
}

func (r *ring) resize(size int) {
	buf := make([]byte, size)
	for at := r.begin; at < r.end; {
		p := r.at(at)
		i := int(at % int64(size))
		at += int64(copy(buf[i:], p))
	}
	r.buf = buf
}

// at is a piece of what is kept from a place on; empty at the end.
func (r *ring) at(place int64) []byte {
	if place >= r.end || len(r.buf) == 0 {
		return nil
	}
	i := int(place % int64(len(r.buf)))
	n := min(int(r.end-place), len(r.buf)-i)
	return r.buf[i : i+n]
}

// read copies from a place on, or from the oldest byte that is kept, and says
// where that is.
func (r *ring) read(p []byte, place int64) (n int, from int64) {
	from = max(place, r.begin)
	for n < len(p) {
		piece := r.at(from + int64(n))
		if len(piece) == 0 {
			break
		}
		n += copy(p[n:], piece)
	}
	return n, from
}

// settle gives back what is not needed once the stream has ended.
func (r *ring) settle() {
	size := int(r.end - r.begin)
	if size >= len(r.buf) {
		return
	}
	r.pool.give(len(r.buf) - size)
	if size == 0 {
		r.buf = nil
		return
	}
	r.resize(size)
}

// drop gives back everything.
func (r *ring) drop() {
	r.pool.give(len(r.buf))
	r.buf, r.begin = nil, r.end
}
