package dbus_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"

	godbus "github.com/godbus/dbus/v5"

	"github.com/unitward/unitward/dbusclient/dbus"
)

const (
	systemd    = "org.freedesktop.systemd1"
	service    = systemd + ".Service"
	properties = "org.freedesktop.DBus.Properties"
)

// states is the body of a PropertiesChanged with properties of many types, as
// a service has them.
func states() []any {
	type command struct {
		Path   string
		Argv   []string
		Ignore bool
		Start  uint64
		PID    uint32
	}
	return []any{service, map[string]godbus.Variant{
		"ExecMainCode":           godbus.MakeVariant(int32(1)),
		"ExecMainStatus":         godbus.MakeVariant(int32(-7)),
		"ExecMainPID":            godbus.MakeVariant(uint32(4711)),
		"ExecMainExitTimestamp":  godbus.MakeVariant(uint64(1) << 50),
		"InvocationID":           godbus.MakeVariant([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
		"SubState":               godbus.MakeVariant("dead"),
		"Result":                 godbus.MakeVariant(true), // of another type than it has
		"ExecStart":              godbus.MakeVariant([]command{{"/bin/true", []string{"true", "ä"}, true, 5, 6}}),
		"Conditions":             godbus.MakeVariant([]struct{ A, B string }{}),
		"StatusText":             godbus.MakeVariant("x"),
		"Job":                    godbus.MakeVariant(struct{ ID uint32 }{3}),
		"A":                      godbus.MakeVariant(map[string]godbus.Variant{"b": godbus.MakeVariant(godbus.MakeVariant(int16(1)))}),
		"D":                      godbus.MakeVariant(1.5),
		"S":                      godbus.MakeVariant(godbus.SignatureOf(uint16(1))),
		"ExecMainStartTimestamp": godbus.MakeVariant(uint64(3)),
	}, []string{"Invalidated"}}
}

// samples are messages as managers send them.
func samples(t testing.TB) map[string]*godbus.Message {
	of := func(kind godbus.Type, body ...any) *godbus.Message {
		m := &godbus.Message{Type: kind, Body: body, Headers: map[godbus.HeaderField]godbus.Variant{
			godbus.FieldSender: godbus.MakeVariant(":1.7"), godbus.FieldDestination: godbus.MakeVariant(":1.99"),
		}}
		if kind == godbus.TypeSignal {
			m.Headers[godbus.FieldPath] = godbus.MakeVariant(godbus.ObjectPath("/org/x"))
			m.Headers[godbus.FieldInterface] = godbus.MakeVariant(properties)
			m.Headers[godbus.FieldMember] = godbus.MakeVariant("PropertiesChanged")
		} else {
			m.Headers[godbus.FieldReplySerial] = godbus.MakeVariant(uint32(77))
		}
		if kind == godbus.TypeError {
			m.Headers[godbus.FieldErrorName] = godbus.MakeVariant("a.b.C")
		}
		if len(body) > 0 {
			m.Headers[godbus.FieldSignature] = godbus.MakeVariant(godbus.SignatureOf(body...))
		}
		return m
	}
	return map[string]*godbus.Message{
		"nothing":        of(godbus.TypeMethodReply),
		"string":         of(godbus.TypeMethodReply, godbus.MakeVariant("loaded")),
		"number":         of(godbus.TypeMethodReply, godbus.MakeVariant(uint64(1)<<63)),
		"int":            of(godbus.TypeMethodReply, godbus.MakeVariant(int32(-1))),
		"uint":           of(godbus.TypeMethodReply, godbus.MakeVariant(uint32(1))),
		"path in one":    of(godbus.TypeMethodReply, godbus.MakeVariant(godbus.ObjectPath("/a/b"))),
		"bytes":          of(godbus.TypeMethodReply, godbus.MakeVariant([]byte{1, 0, 255})),
		"strings":        of(godbus.TypeMethodReply, godbus.MakeVariant([]string{"A=b", ""})),
		"variant in one": of(godbus.TypeMethodReply, godbus.MakeVariant(godbus.MakeVariant("x"))),
		"path":           of(godbus.TypeMethodReply, godbus.ObjectPath("/org/freedesktop/systemd1/job/17")),
		"error":          of(godbus.TypeError, "no such unit"),
		"job":            of(godbus.TypeSignal, uint32(9), godbus.ObjectPath("/job/9"), "a.service", "done"),
		"owner":          of(godbus.TypeSignal, systemd, "", ":1.5"),
		"changed":        of(godbus.TypeSignal, states()...),
		"other":          of(godbus.TypeSignal, []struct{ A, B uint16 }{{1, 2}}, "x"),
	}
}

// ours are the values of godbus as this package has them. whole is false where
// there is one that the two hold in ways that cannot be compared.
func ours(v any) (_ any, whole bool) {
	switch v := v.(type) {
	case godbus.Variant:
		o, whole := ours(v.Value())
		return dbus.MakeVariant(o), whole
	case godbus.ObjectPath:
		return dbus.ObjectPath(v), true
	case godbus.Signature:
		return dbus.Signature(v.String()), true
	case godbus.UnixFD:
		return dbus.UnixFD(v), true
	case godbus.UnixFDIndex:
		return dbus.UnixFD(v), true
	case map[string]godbus.Variant:
		all := map[string]dbus.Variant{}
		for name, v := range v {
			o, ok := ours(v)
			if !ok {
				return nil, false
			}
			all[name] = o.(dbus.Variant)
		}
		return all, true
	case []byte, []string:
		return v, true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Map:
		return nil, false
	case reflect.Slice:
		all := []any{}
		for i := range r.Len() {
			o, ok := ours(r.Index(i).Interface())
			if !ok {
				return nil, false
			}
			all = append(all, o)
		}
		return all, true
	}
	return v, true
}

// sameMessage compares with what godbus makes of the same bytes.
func sameMessage(t *testing.T, b []byte) {
	t.Helper()
	got, err := dbus.Decode(b, nil)
	if err != nil {
		return // what is refused is never taken for something else
	}
	want, err := dbusDecode(b)
	if err != nil {
		return
	}
	header := func(f godbus.HeaderField) string {
		switch v := want.Headers[f].Value().(type) {
		case string:
			return v
		case godbus.ObjectPath:
			return string(v)
		}
		return ""
	}
	serial, _ := want.Headers[godbus.FieldReplySerial].Value().(uint32)
	if byte(got.Kind) != byte(want.Type) || byte(got.Flags) != byte(want.Flags) || got.Serial != want.Serial() || got.ReplySerial != serial ||
		got.Sender != header(godbus.FieldSender) || got.Destination != header(godbus.FieldDestination) || string(got.Path) != header(godbus.FieldPath) ||
		got.Interface != header(godbus.FieldInterface) || got.Member != header(godbus.FieldMember) || got.ErrorName != header(godbus.FieldErrorName) {
		t.Fatalf("the header is %+v, want %v", got, want)
	}
	if len(want.Body) == 0 && len(got.Body) == 0 {
		return
	}
	body, whole := ours(want.Body)
	// As text: a number that is none is not equal to itself.
	if is, should := fmt.Sprintf("%#v", got.Body), fmt.Sprintf("%#v", body); whole && is != should {
		t.Fatalf("the body is %s, want %s", is, should)
	}
	some, err := dbus.Decode(b, func(name []byte) bool { return string(name) == "Result" })
	if err != nil {
		t.Fatalf("a part of it cannot be decoded: %v", err)
	}
	if signature, _ := want.Headers[godbus.FieldSignature].Value().(godbus.Signature); signature.String() == "sa{sv}as" {
		is, all := some.Body[1].(map[string]dbus.Variant), got.Body[1].(map[string]dbus.Variant)
		result, ok := all["Result"]
		if fmt.Sprintf("%#v", is["Result"]) != fmt.Sprintf("%#v", result) || len(is) > 1 || ok != (len(is) == 1) {
			t.Fatalf("of %v it decodes %v", all, is)
		}
	}
}

func dbusDecode(b []byte) (m *godbus.Message, err error) {
	defer func() {
		if recover() != nil {
			err = dbus.ErrTruncated
		}
	}()
	return godbus.DecodeMessage(bytes.NewReader(b))
}

func encoded(t testing.TB, m *godbus.Message, order binary.ByteOrder) []byte {
	var b bytes.Buffer
	if err := m.EncodeTo(&b, order); err != nil {
		t.Fatal(err)
	}
	order.PutUint32(b.Bytes()[8:], 5)
	return b.Bytes()
}

func TestDecode(t *testing.T) {
	for name, m := range samples(t) {
		t.Run(name, func(t *testing.T) {
			for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
				b := encoded(t, m, order)
				if _, err := dbus.Decode(b, nil); err != nil {
					t.Fatal(err)
				}
				sameMessage(t, b)
				for n := dbus.FixedHeader; n < len(b); n++ {
					cut := bytes.Clone(b[:n])
					if size, err := dbus.Frame(cut); err == nil && size > 0 {
						t.Fatalf("%d of %d bytes are a message", n, len(b))
					}
				}
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples(f) {
		f.Add(encoded(f, m, binary.LittleEndian))
		f.Add(encoded(f, m, binary.BigEndian))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := dbus.Frame(b)
		if err != nil || n == 0 {
			return
		}
		sameMessage(t, b[:n])
	})
}

func BenchmarkDecode(b *testing.B) {
	msg := encoded(b, samples(b)["changed"], binary.LittleEndian)
	told := func(name []byte) bool { return bytes.HasPrefix(name, []byte("ExecMain")) }
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			if _, err := dbus.Decode(msg, told); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("godbus", func(b *testing.B) {
		for b.Loop() {
			if _, err := dbusDecode(msg); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("l\x01\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("B\x01\x00\x01\xff\xff\xff\xff\x01\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := dbus.Frame(b)
		if err != nil || n == 0 {
			return
		}
		if n < dbus.FixedHeader || n > len(b) || n > dbus.MaxMessage {
			t.Fatalf("a frame of %d bytes in %d", n, len(b))
		}
		_, _ = dbus.Decode(b[:n], nil) // must not panic
	})
}
