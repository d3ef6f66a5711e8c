package dbus

import (
	"encoding/binary"
	"math"
)

// reader walks through the marshalled values of a message (D-Bus
// Specification, "Marshaling"). What goes beyond the end makes it bad, and
// every value that follows empty.
type reader struct {
	b     []byte
	i     int
	order binary.ByteOrder
	bad   bool
}

// take is the next n bytes; nil when there are not as many.
func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b)-r.i {
		r.bad = true
		return nil
	}
	b := r.b[r.i : r.i+n]
	r.i += n
	return b
}

// align skips what pads to a multiple of n, counted from the message's begin.
func (r *reader) align(n int) { r.take((n - r.i%n) % n) }

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	r.align(2)
	if b := r.take(2); b != nil {
		return r.order.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	r.align(4)
	if b := r.take(4); b != nil {
		return r.order.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	r.align(8)
	if b := r.take(8); b != nil {
		return r.order.Uint64(b)
	}
	return 0
}

func (r *reader) f64() float64 { return math.Float64frombits(r.u64()) }

// elements goes to the first element of an array, and returns where the array
// ends. The elements are of a type that begins with c.
func (r *reader) elements(c byte) (end int) {
	n := int(r.u32())
	r.align(alignment(c))
	if n < 0 || n > maxArray || n > len(r.b)-r.i {
		r.bad = true
		return r.i
	}
	return r.i + n
}

// ends says that an array's elements have to end where the array does.
func (r *reader) ends(end int) { r.bad = r.bad || r.i != end }

// bytes is a string or an object path, without the zero byte after it.
func (r *reader) bytes() []byte {
	b := r.take(int(r.u32()))
	r.take(1)
	return b
}

func (r *reader) text() string { return string(r.bytes()) }

func (r *reader) signature() string {
	b := r.take(int(r.u8()))
	r.take(1)
	if len(b) == 1 {
		switch b[0] { // no allocation for what there is most of
		case 's':
			return "s"
		case 'u':
			return "u"
		case 't':
			return "t"
		case 'v':
			return "v"
		}
	}
	return string(b)
}

// maxDepth is the specification's bound for containers within one another
// ("Valid Signatures": 32 arrays and 32 structs).
const maxDepth = 64

// skip passes over values of the types in signature.
func (r *reader) skip(signature string, depth int) {
	if depth > maxDepth {
		r.bad = true
	}
	for len(signature) > 0 && !r.bad {
		first, rest, ok := cutType(signature)
		if !ok {
			r.bad = true
			return
		}
		r.skipOne(first, depth)
		signature = rest
	}
}

func (r *reader) skipOne(t string, depth int) {
	switch t[0] {
	case 'y':
		r.take(1)
	case 'n', 'q':
		r.align(2)
		r.take(2)
	case 'b', 'i', 'u', 'h':
		r.u32()
	case 'x', 't', 'd':
		r.u64()
	case 's', 'o':
		r.bytes()
	case 'g':
		r.signature()
	case 'v':
		r.skip(r.signature(), depth+1)
	case 'a':
		length := int(r.u32())
		r.align(alignment(t[1]))
		r.take(length)
	case '(', '{':
		if len(t) == 2 {
			r.bad = true
			return
		}
		r.align(8)
		r.skip(t[1:len(t)-1], depth+1)
	default:
		r.bad = true
	}
}

// alignment is that of a type which begins with c.
func alignment(c byte) int {
	switch c {
	case 'n', 'q':
		return 2
	case 'b', 'i', 'u', 'h', 's', 'o', 'a':
		return 4
	case 'x', 't', 'd', '(', '{':
		return 8
	}
	return 1
}

// cutType cuts the first complete type off a signature.
func cutType(s string) (first, rest string, ok bool) {
	i, open := 0, 0
	for ; i < len(s); i++ {
		switch s[i] {
		case 'a':
			continue
		case '(', '{':
			open++
			continue
		case ')', '}':
			open--
		}
		if open <= 0 {
			return s[:i+1], s[i+1:], open == 0
		}
	}
	return "", "", false
}
