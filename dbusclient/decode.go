package dbusclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// message is what was received.
type message struct {
	kind dbus.Type
	// serial is that of the call which it answers; 0 in a signal.
	serial                             uint32
	sender, path, iface, member, fault string
	body                               []any
}

// decode reads one whole message. The few kinds that a job's life brings, by
// the dozen, are read here: godbus's decoder, which finds each type's way by
// reflection, took a tenth of what a short job costs its caller. Everything
// else is left to it.
func decode(b []byte) (*message, error) {
	m, signature, r, err := header(b)
	if err != nil {
		return nil, err
	}
	switch signature {
	case "":
	case "v":
		v, err := r.variant()
		if err != nil {
			return decodeAny(b)
		}
		m.body = []any{dbus.MakeVariant(v)}
	case "o":
		m.body = []any{dbus.ObjectPath(r.text())}
	case "uoss":
		m.body = []any{r.u32(), dbus.ObjectPath(r.text()), r.text(), r.text()}
	case "sa{sv}as":
		iface := r.text()
		m.body = []any{iface, r.changes(), nil}
	default:
		return decodeAny(b)
	}
	if r.bad {
		return nil, errTruncated
	}
	return m, nil
}

var errTruncated = errors.New("a message cannot be decoded: it ends too early")

// header reads a message's header, of which frame has checked the lengths. The
// reader is where the body begins.
func header(b []byte) (m *message, signature string, body *reader, err error) {
	r := &reader{b: b, order: binary.LittleEndian}
	if b[0] == 'B' {
		r.order = binary.BigEndian
	}
	m = &message{kind: dbus.Type(b[1])}
	end := fixedHeader + int(r.order.Uint32(b[12:]))
	r.i = fixedHeader
	for r.i < end && !r.bad {
		r.align(8)
		field := dbus.HeaderField(r.u8())
		switch kind := r.signature(); kind {
		case "s", "o":
			s := r.text()
			switch field {
			case dbus.FieldPath:
				m.path = s
			case dbus.FieldInterface:
				m.iface = s
			case dbus.FieldMember:
				m.member = s
			case dbus.FieldErrorName:
				m.fault = s
			case dbus.FieldSender:
				m.sender = s
			}
		case "g":
			if s := r.signature(); field == dbus.FieldSignature {
				signature = s
			}
		case "u":
			if n := r.u32(); field == dbus.FieldReplySerial {
				m.serial = n
			}
		default:
			r.skip(kind, 0)
		}
	}
	r.align(8)
	if r.bad {
		return nil, "", nil, errTruncated
	}
	return m, signature, r, nil
}

// decodeAny is godbus's own decoder, which can panic on what is no message.
func decodeAny(b []byte) (m *message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a message cannot be decoded: %v", p)
		}
	}()
	m, _, _, err = header(b)
	if err != nil {
		return nil, err
	}
	d, err := dbus.DecodeMessage(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	m.body = d.Body
	return m, nil
}

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

// errOther is a type that is left to godbus.
var errOther = errors.New("a type that is not read here")

// variant reads the value of a variant of a basic type, or of bytes.
func (r *reader) variant() (any, error) {
	switch r.signature() {
	case "s":
		return r.text(), nil
	case "o":
		return dbus.ObjectPath(r.text()), nil
	case "u":
		return r.u32(), nil
	case "i":
		return int32(r.u32()), nil
	case "t":
		return r.u64(), nil
	case "ay":
		return bytes.Clone(r.take(int(r.u32()))), nil
	}
	return nil, errOther
}

// changes reads the properties of a PropertiesChanged that the pump takes,
// and passes over the others.
func (r *reader) changes() map[string]dbus.Variant {
	props := make(map[string]dbus.Variant, 16)
	length := int(r.u32())
	r.align(8)
	end := r.i + length
	for r.i < end && !r.bad {
		r.align(8)
		name := r.bytes()
		if !told(name) {
			r.skip(r.signature(), 0)
			continue
		}
		at := r.i
		v, err := r.variant()
		if err != nil { // it has another type than it should
			r.i = at
			r.skip(r.signature(), 0)
			continue
		}
		props[string(name)] = dbus.MakeVariant(v)
	}
	return props
}

// told lists the properties that a follower takes from signals.
func told(name []byte) bool {
	switch string(name) {
	case "ActiveState", "SubState", "Result", "InvocationID", "ExecMainCode", "ExecMainStatus", "ExecMainPID",
		"ExecMainStartTimestamp", "ExecMainExitTimestamp", "ExecMainHandoffTimestamp", "InactiveEnterTimestamp":
		return true
	}
	return false
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
