package dbus

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Append encodes the message in little-endian order and appends it to b. fds are
// the descriptors that have to go with it, in their order. The error is an
// *EncodeError; b is then returned as it was.
func (m *Message) Append(b []byte) (out []byte, fds []int, err error) {
	signature, err := SignatureOf(m.Body...)
	if err != nil {
		return b, nil, err
	}
	if len(signature) > math.MaxUint8 {
		return b, nil, &EncodeError{fmt.Sprintf("its signature has %d bytes: at most 255 are allowed", len(signature))}
	}
	body := encoder{}
	for _, v := range m.Body {
		body.value(v)
	}
	h := encoder{b: append(b, 'l', byte(m.Kind), byte(m.Flags), 1), base: len(b)}
	h.u32(uint32(len(body.b)))
	h.u32(m.Serial)
	h.array(8, func() {
		h.field(fieldPath, "o", string(m.Path))
		h.field(fieldInterface, "s", m.Interface)
		h.field(fieldMember, "s", m.Member)
		h.field(fieldErrorName, "s", m.ErrorName)
		h.number(fieldReplySerial, m.ReplySerial)
		h.field(fieldDestination, "s", m.Destination)
		h.field(fieldSender, "s", m.Sender)
		h.field(fieldSignature, "g", string(signature))
		h.number(fieldUnixFDs, uint32(len(body.fds)))
	})
	h.align(8)
	out = append(h.b, body.b...)
	switch {
	case h.why != "":
		return b, nil, &EncodeError{h.why}
	case body.why != "":
		return b, nil, &EncodeError{body.why}
	case len(out)-len(b) > MaxMessage:
		return b, nil, &EncodeError{fmt.Sprintf("it has %d bytes: at most %d are allowed", len(out)-len(b), MaxMessage)}
	}
	return out, body.fds, nil
}

// encoder appends marshalled values. Once why says that something cannot be
// encoded, the rest does not matter.
type encoder struct {
	b []byte
	// base is where the message, or the body, begins in b: what is aligned is
	// aligned from there.
	base int
	fds  []int
	why  string
}

func (e *encoder) align(n int) {
	for (len(e.b)-e.base)%n != 0 {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) u32(n uint32) {
	e.align(4)
	e.b = binary.LittleEndian.AppendUint32(e.b, n)
}

func (e *encoder) u64(n uint64) {
	e.align(8)
	e.b = binary.LittleEndian.AppendUint64(e.b, n)
}

func (e *encoder) text(s string) {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		e.why = fmt.Sprintf("%.80q is not UTF-8 without NUL", s)
	}
	e.u32(uint32(len(s)))
	e.b = append(append(e.b, s...), 0)
}

func (e *encoder) path(p ObjectPath) {
	if !validPath(string(p)) {
		e.why = fmt.Sprintf("%.80q is no object path", string(p))
	}
	e.text(string(p))
}

// validPath is the specification's rule ("Valid Object Paths").
func validPath(p string) bool {
	if p == "/" {
		return true
	}
	if p == "" || p[0] != '/' {
		return false
	}
	for part := range strings.SplitSeq(p[1:], "/") {
		if part == "" {
			return false
		}
		for i := range len(part) {
			c := part[i]
			if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
				return false
			}
		}
	}
	return true
}

func (e *encoder) signature(s string) {
	if len(s) > math.MaxUint8 {
		e.why = fmt.Sprintf("a signature has %d bytes: at most 255 are allowed", len(s))
	}
	e.b = append(append(append(e.b, byte(len(s))), s...), 0)
}

// array appends what f appends, as elements of an alignment.
func (e *encoder) array(alignment int, f func()) {
	e.u32(0)
	at := len(e.b)
	e.align(alignment)
	begin := len(e.b)
	f()
	n := len(e.b) - begin
	if n > maxArray {
		e.why = fmt.Sprintf("an array has %d bytes: at most %d are allowed", n, maxArray)
	}
	binary.LittleEndian.PutUint32(e.b[at-4:], uint32(n))
}

// field appends a field of the header, if it has a value.
func (e *encoder) field(field byte, kind, value string) {
	if value == "" {
		return
	}
	e.align(8)
	e.b = append(e.b, field)
	e.signature(kind)
	switch kind {
	case "o":
		e.path(ObjectPath(value))
	case "g":
		e.signature(value)
	default:
		e.text(value)
	}
}

func (e *encoder) number(field byte, n uint32) {
	if n == 0 {
		return
	}
	e.align(8)
	e.b = append(e.b, field)
	e.signature("u")
	e.u32(n)
}

// value appends a value of which SignatureOf knows the type.
func (e *encoder) value(v any) {
	switch v := v.(type) {
	case string:
		e.text(v)
	case bool:
		if v {
			e.u32(1)
		} else {
			e.u32(0)
		}
	case uint32:
		e.u32(v)
	case int32:
		e.u32(uint32(v))
	case uint64:
		e.u64(v)
	case []string:
		e.array(4, func() {
			for _, s := range v {
				e.text(s)
			}
		})
	case ObjectPath:
		e.path(v)
	case Signature:
		e.signature(string(v))
	case UnixFD:
		e.u32(uint32(len(e.fds)))
		e.fds = append(e.fds, int(v))
	case Variant:
		e.variant(v)
	default:
		e.reflected(reflect.ValueOf(v))
	}
}

func (e *encoder) variant(v Variant) {
	signature, err := SignatureOf(v.value)
	if err != nil {
		e.why = "a variant: " + err.(*EncodeError).Why //nolint:errorlint // it has no other
		return
	}
	e.signature(string(signature))
	e.value(v.value)
}

func (e *encoder) reflected(v reflect.Value) {
	switch v.Kind() {
	case reflect.Uint8:
		e.b = append(e.b, byte(v.Uint()))
	case reflect.Bool:
		e.value(v.Bool())
	case reflect.Int16:
		e.align(2)
		e.b = binary.LittleEndian.AppendUint16(e.b, uint16(v.Int()))
	case reflect.Uint16:
		e.align(2)
		e.b = binary.LittleEndian.AppendUint16(e.b, uint16(v.Uint()))
	case reflect.Int32:
		e.u32(uint32(v.Int()))
	case reflect.Uint32:
		e.u32(uint32(v.Uint()))
	case reflect.Int64:
		e.u64(uint64(v.Int()))
	case reflect.Uint64:
		e.u64(v.Uint())
	case reflect.Float64:
		e.u64(math.Float64bits(v.Float()))
	case reflect.String:
		e.text(v.String())
	case reflect.Slice:
		if b, ok := v.Interface().([]byte); ok {
			e.array(1, func() { e.b = append(e.b, b...) })
			return
		}
		first, err := appendType(nil, v.Type().Elem())
		if err != nil {
			e.why = err.(*EncodeError).Why //nolint:errorlint // it has no other
			return
		}
		e.array(alignment(first[0]), func() {
			for i := range v.Len() {
				e.value(v.Index(i).Interface())
			}
		})
	case reflect.Struct:
		e.align(8)
		for i := range v.NumField() {
			e.value(v.Field(i).Interface())
		}
	default:
		e.why = "D-Bus has no type for " + v.Type().String()
	}
}
