package dbus

import (
	"fmt"
	"reflect"
	"strings"
)

// ObjectPath is a value of the type o.
type ObjectPath string

// Signature is a value of the type g: types, one after the other.
type Signature string

// UnixFD is a value of the type h. One that is sent is a descriptor of this
// process; one that came is an index into the descriptors that came along.
type UnixFD int

// Variant is a value together with its type. The zero value has no type and
// cannot be sent.
type Variant struct{ value any }

// MakeVariant makes a variant of a value, whose type has to be one of those
// that the package describes. Whether it is shows when it is sent.
func MakeVariant(value any) Variant { return Variant{value} }

// Value is what the variant holds; nil in the zero value.
func (v Variant) Value() any { return v.value }

// Signature is the type of the value; empty where D-Bus has none for it.
func (v Variant) Signature() Signature {
	s, _ := SignatureOf(v.value)
	return s
}

// Error is an error reply.
type Error struct {
	// Name is the error's name, such as org.freedesktop.DBus.Error.NoReply.
	Name string
	// Body is what came with it; nil is nothing. The first value is a sentence
	// for people, mostly.
	Body []any
}

// Error is the sentence that came with the error, else its name.
func (e Error) Error() string {
	if len(e.Body) > 0 {
		if s, ok := e.Body[0].(string); ok {
			return s
		}
	}
	return e.Name
}

// EncodeError says that a message has a value which D-Bus cannot carry. It was
// not sent.
type EncodeError struct {
	// Why is the reason, for people.
	Why string
}

// Error says why nothing was sent.
func (e *EncodeError) Error() string { return "cannot encode a message: " + e.Why }

// Store sets what into points at to the values of a message's body, in their
// order. It takes pointers to the types of the package, to []string and to
// []byte. The error says that there are fewer values, or that one has another
// type.
func Store(body []any, into ...any) error {
	if len(body) < len(into) {
		return fmt.Errorf("cannot take %d values from an answer that has %d", len(into), len(body))
	}
	for i, to := range into {
		ok := false
		switch to := to.(type) {
		case *Variant:
			ok = put(body[i], to)
		case *string:
			ok = put(body[i], to)
		case *ObjectPath:
			ok = put(body[i], to)
		case *bool:
			ok = put(body[i], to)
		case *int32:
			ok = put(body[i], to)
		case *uint32:
			ok = put(body[i], to)
		case *uint64:
			ok = put(body[i], to)
		case *[]byte:
			ok = put(body[i], to)
		case *[]string:
			ok = put(body[i], to)
		}
		if !ok {
			return fmt.Errorf("cannot take a value of an answer: it is a %T, and a %s was asked for", body[i], strings.TrimPrefix(fmt.Sprintf("%T", to), "*"))
		}
	}
	return nil
}

func put[T any](v any, into *T) bool {
	t, ok := v.(T)
	if ok {
		*into = t
	}
	return ok
}

// SignatureOf is the signature of values. The error is an *EncodeError.
func SignatureOf(values ...any) (Signature, error) {
	var b []byte
	for _, v := range values {
		var err error
		if b, err = appendSignature(b, v); err != nil {
			return "", err
		}
	}
	return Signature(b), nil
}

func appendSignature(b []byte, v any) ([]byte, error) {
	switch v.(type) {
	case string:
		return append(b, 's'), nil
	case bool:
		return append(b, 'b'), nil
	case uint32:
		return append(b, 'u'), nil
	case int32:
		return append(b, 'i'), nil
	case uint64:
		return append(b, 't'), nil
	case []string:
		return append(b, "as"...), nil
	case ObjectPath:
		return append(b, 'o'), nil
	case UnixFD:
		return append(b, 'h'), nil
	}
	if v == nil {
		return b, &EncodeError{"D-Bus has no type for nothing"}
	}
	return appendType(b, reflect.TypeOf(v))
}

var (
	objectPathType = reflect.TypeFor[ObjectPath]()
	signatureType  = reflect.TypeFor[Signature]()
	unixFDType     = reflect.TypeFor[UnixFD]()
	variantType    = reflect.TypeFor[Variant]()
)

func appendType(b []byte, t reflect.Type) (_ []byte, err error) {
	switch t {
	case objectPathType:
		return append(b, 'o'), nil
	case signatureType:
		return append(b, 'g'), nil
	case unixFDType:
		return append(b, 'h'), nil
	case variantType:
		return append(b, 'v'), nil
	}
	switch t.Kind() {
	case reflect.Uint8:
		return append(b, 'y'), nil
	case reflect.Bool:
		return append(b, 'b'), nil
	case reflect.Int16:
		return append(b, 'n'), nil
	case reflect.Uint16:
		return append(b, 'q'), nil
	case reflect.Int32:
		return append(b, 'i'), nil
	case reflect.Uint32:
		return append(b, 'u'), nil
	case reflect.Int64:
		return append(b, 'x'), nil
	case reflect.Uint64:
		return append(b, 't'), nil
	case reflect.Float64:
		return append(b, 'd'), nil
	case reflect.String:
		return append(b, 's'), nil
	case reflect.Slice:
		return appendType(append(b, 'a'), t.Elem())
	case reflect.Struct:
		if t.NumField() == 0 {
			break
		}
		b = append(b, '(')
		for i := range t.NumField() {
			if !t.Field(i).IsExported() {
				return b, &EncodeError{"a field of " + t.String() + " is not exported"}
			}
			if b, err = appendType(b, t.Field(i).Type); err != nil {
				return b, err
			}
		}
		return append(b, ')'), nil
	}
	return b, &EncodeError{"D-Bus has no type for " + t.String()}
}
