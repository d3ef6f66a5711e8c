package dbus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrTruncated says that a message ends before its values do, or has a value
// that breaks the rules of its type.
var ErrTruncated = errors.New("a message cannot be decoded: it ends too early")

// Frame is the length in bytes of the message that b begins with; 0 while it is
// not all there. The error says that no message begins there, or that it is
// longer than MaxMessage.
func Frame(b []byte) (int, error) {
	if len(b) < FixedHeader {
		return 0, nil
	}
	var order binary.ByteOrder
	switch b[0] {
	case 'l':
		order = binary.LittleEndian
	case 'B':
		order = binary.BigEndian
	default:
		return 0, fmt.Errorf("a message begins with byte %#x", b[0])
	}
	body, fields := uint64(order.Uint32(b[4:])), uint64(order.Uint32(b[12:]))
	n := FixedHeader + (fields+7)&^7 + body
	if n > MaxMessage {
		return 0, fmt.Errorf("a message of %d bytes came: at most %d are allowed", n, MaxMessage)
	}
	if uint64(len(b)) < n {
		return 0, nil
	}
	return int(n), nil
}

// Decode reads one whole message, as Frame found it. Arrays are []byte,
// []string, map[string]Variant for a{sv} and []any for all others; structs and
// the entries of other dictionaries are []any.
//
// Of a PropertiesChanged, whose body has the signature sa{sv}as, only those
// properties are decoded for which told is true, and not the names in the last
// array: they come by the dozen, and most of them are nobody's business. nil
// is all of it. What name holds is told's only during the call.
//
// The error is ErrTruncated.
func Decode(b []byte, told func(name []byte) bool) (*Message, error) {
	m, signature, r, err := header(b)
	if err != nil {
		return nil, err
	}
	if told != nil && signature == "sa{sv}as" {
		m.Body = []any{r.text(), r.dictionary(told, 0), nil}
	} else {
		m.Body = r.values(signature, 0)
		r.ends(len(b))
	}
	if r.bad {
		return nil, ErrTruncated
	}
	return m, nil
}

// header reads a message's header, of which Frame has checked the lengths. The
// reader is where the body begins.
func header(b []byte) (m *Message, signature string, body *reader, err error) {
	r := &reader{b: b, order: binary.LittleEndian}
	if b[0] == 'B' {
		r.order = binary.BigEndian
	}
	m = &Message{Kind: Kind(b[1]), Flags: Flags(b[2]), Serial: r.order.Uint32(b[8:])}
	end := FixedHeader + int(r.order.Uint32(b[12:]))
	r.i = FixedHeader
	for r.i < end && !r.bad {
		r.align(8)
		field := r.u8()
		switch kind := r.signature(); kind {
		case "s", "o":
			s := r.text()
			switch field {
			case fieldPath:
				m.Path = ObjectPath(s)
			case fieldInterface:
				m.Interface = s
			case fieldMember:
				m.Member = s
			case fieldErrorName:
				m.ErrorName = s
			case fieldSender:
				m.Sender = s
			case fieldDestination:
				m.Destination = s
			}
		case "g":
			if s := r.signature(); field == fieldSignature {
				signature = s
			}
		case "u":
			if n := r.u32(); field == fieldReplySerial {
				m.ReplySerial = n
			}
		default:
			r.skip(kind, 0)
		}
	}
	r.ends(end)
	r.align(8)
	if r.bad {
		return nil, "", nil, ErrTruncated
	}
	return m, signature, r, nil
}

// values reads values of the types in signature; nil is none.
func (r *reader) values(signature string, depth int) []any {
	var all []any
	for len(signature) > 0 && !r.bad {
		first, rest, ok := cutType(signature)
		if !ok || depth > maxDepth {
			r.bad = true
			return nil
		}
		all = append(all, r.value(first, depth))
		signature = rest
	}
	return all
}

// value reads a value of one whole type.
func (r *reader) value(t string, depth int) any {
	switch t[0] {
	case 'y':
		return r.u8()
	case 'b':
		return r.u32() != 0
	case 'n':
		return int16(r.u16())
	case 'q':
		return r.u16()
	case 'i':
		return int32(r.u32())
	case 'u':
		return r.u32()
	case 'x':
		return int64(r.u64())
	case 't':
		return r.u64()
	case 'd':
		return r.f64()
	case 's':
		return r.text()
	case 'o':
		return ObjectPath(r.text())
	case 'g':
		return Signature(r.signature())
	case 'h':
		return UnixFD(r.u32())
	case 'v':
		return r.variant(depth + 1)
	case 'a':
		return r.array(t[1:], depth+1)
	case '(', '{':
		if len(t) == 2 { // it would take no room, any number of times
			break
		}
		r.align(8)
		return r.values(t[1:len(t)-1], depth+1)
	}
	r.bad = true
	return nil
}

func (r *reader) variant(depth int) Variant {
	t := r.signature()
	if first, rest, ok := cutType(t); !ok || rest != "" || first == "" || depth > maxDepth {
		r.bad = true
		return Variant{}
	}
	return Variant{r.value(t, depth)}
}

// array reads an array of elements of a type.
func (r *reader) array(t string, depth int) any {
	if depth > maxDepth {
		r.bad = true
		return nil
	}
	switch t {
	case "y":
		return bytes.Clone(r.take(int(r.u32())))
	case "{sv}":
		return r.dictionary(nil, depth)
	}
	end := r.elements(t[0])
	if t == "s" {
		all := []string{}
		for r.i < end && !r.bad {
			all = append(all, r.text())
		}
		r.ends(end)
		return all
	}
	all := []any{}
	for r.i < end && !r.bad {
		all = append(all, r.value(t, depth))
	}
	r.ends(end)
	return all
}

// dictionary reads an a{sv}. Where told is not nil, the values of other names
// are passed over.
func (r *reader) dictionary(told func(name []byte) bool, depth int) map[string]Variant {
	all := make(map[string]Variant, 16)
	end := r.elements('{')
	for r.i < end && !r.bad {
		r.align(8)
		name := r.bytes()
		if told != nil && !told(name) {
			r.skip(r.signature(), depth+1)
			continue
		}
		all[string(name)] = r.variant(depth + 1)
	}
	r.ends(end)
	return all
}
