package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// member is one of an object.
type member struct {
	name  string
	value json.RawMessage
}

// errNoObject says that a value is not an object.
var errNoObject = errors.New("an object is expected")

// members splits an object. A name that comes twice is an error: two readers
// could take different ones.
func members(b []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, errNoObject
	}
	var out []member
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if seen[name] {
			return nil, &FieldError{name, "it is there twice"}
		}
		seen[name] = true
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		out = append(out, member{name, v})
	}
	_, err = d.Token()
	return out, err
}

// FieldError is a field that is not as it should be.
type FieldError struct {
	// Field is its path, such as "output.mode"; empty is the whole.
	Field  string
	Reason string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "cannot read the parameters: " + e.Reason
	}
	return fmt.Sprintf("cannot read the field %.200q: %s", e.Field, e.Reason)
}

// Decode reads an object into a struct: names count as they are written, and
// one that the struct has not is an error that names it. Missing and null
// leave what is there. The error is a *FieldError.
func Decode(b []byte, into any) error {
	return decodeStruct(b, reflect.ValueOf(into).Elem(), "")
}

func decodeStruct(b []byte, v reflect.Value, path string) error {
	fields, err := members(b)
	var field *FieldError
	switch {
	case errors.As(err, &field):
		return &FieldError{path + field.Field, field.Reason}
	case errors.Is(err, errNoObject):
		return &FieldError{strings.TrimSuffix(path, "."), err.Error()}
	case err != nil:
		return &FieldError{strings.TrimSuffix(path, "."), "it is not JSON"}
	}
	known := map[string]reflect.Value{}
	index(v, known)
	for _, m := range fields {
		f, ok := known[m.name]
		if !ok {
			return &FieldError{path + m.name, "there is no such field"}
		}
		if err := decodeValue(m.value, f, path+m.name); err != nil {
			return err
		}
	}
	return nil
}

// index finds the fields of a struct, and of those embedded in it, by the names
// that JSON has for them.
func index(v reflect.Value, into map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			index(v.Field(i), into)
		case name != "" && name != "-":
			into[name] = v.Field(i)
		}
	}
}

func decodeValue(b json.RawMessage, v reflect.Value, path string) error {
	own := v.CanAddr() && v.Addr().Type().Implements(reflect.TypeFor[json.Unmarshaler]())
	if v.Kind() == reflect.Struct && !own && string(b) != "null" {
		return decodeStruct(b, v, path+".")
	}
	if v.Kind() == reflect.Map && string(b) != "null" {
		var field *FieldError
		if _, err := members(b); errors.As(err, &field) {
			return &FieldError{path + "." + field.Field, field.Reason}
		}
	}
	err := json.Unmarshal(b, v.Addr().Interface())
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &FieldError{path, fmt.Sprintf("a %s is no %s", wrong.Value, kindOf(wrong.Type))}
	}
	return &FieldError{path, err.Error()}
}

// kindOf is a type in the words of JSON.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return "string"
}

// mangled is true for JSON with an escape that stands for no character: half of
// a surrogate pair. Package json would read U+FFFD, and a command would get
// what nobody wrote. b is valid JSON.
func mangled(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 || i+1 >= len(b) {
			return false
		}
		if b[i+1] != 'u' {
			b = b[i+2:]
			continue
		}
		first := unit16(b[i+2:])
		b = b[min(i+6, len(b)):]
		switch {
		case first >= 0xDC00 && first < 0xE000:
			return true
		case first >= 0xD800 && first < 0xDC00:
			if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
				return true
			}
			if second := unit16(b[2:]); second < 0xDC00 || second >= 0xE000 {
				return true
			}
			b = b[6:]
		}
	}
}

// unit16 reads four hexadecimal digits; 0 where there are none.
func unit16(b []byte) (n int) {
	if len(b) < 4 {
		return 0
	}
	for _, c := range b[:4] {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 {
			return 0
		}
		n = n<<4 | d
	}
	return n
}
