package dbusclient

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/godbus/dbus/v5"
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
	return []any{sdSvc, map[string]dbus.Variant{
		"ExecMainCode":           dbus.MakeVariant(int32(1)),
		"ExecMainStatus":         dbus.MakeVariant(int32(-7)),
		"ExecMainPID":            dbus.MakeVariant(uint32(4711)),
		"ExecMainExitTimestamp":  dbus.MakeVariant(uint64(1) << 50),
		"InvocationID":           dbus.MakeVariant([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
		"SubState":               dbus.MakeVariant("dead"),
		"Result":                 dbus.MakeVariant(true), // of another type than it has
		"ExecStart":              dbus.MakeVariant([]command{{"/bin/true", []string{"true", "ä"}, true, 5, 6}}),
		"Conditions":             dbus.MakeVariant([]struct{ A, B string }{}),
		"StatusText":             dbus.MakeVariant("x"),
		"Job":                    dbus.MakeVariant(struct{ ID uint32 }{3}),
		"A":                      dbus.MakeVariant(map[string]dbus.Variant{"b": dbus.MakeVariant(dbus.MakeVariant(int16(1)))}),
		"D":                      dbus.MakeVariant(1.5),
		"S":                      dbus.MakeVariant(dbus.SignatureOf(uint16(1))),
		"ExecMainStartTimestamp": dbus.MakeVariant(uint64(3)),
	}, []string{"Invalidated"}}
}

// samples are messages as managers send them.
func samples(t testing.TB) map[string]*dbus.Message {
	of := func(kind dbus.Type, body ...any) *dbus.Message {
		m := &dbus.Message{Type: kind, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldSender: dbus.MakeVariant(":1.7"), dbus.FieldDestination: dbus.MakeVariant(":1.99"),
		}}
		if kind == dbus.TypeSignal {
			m.Headers[dbus.FieldPath] = dbus.MakeVariant(dbus.ObjectPath("/org/x"))
			m.Headers[dbus.FieldInterface] = dbus.MakeVariant(propsIfc)
			m.Headers[dbus.FieldMember] = dbus.MakeVariant("PropertiesChanged")
		} else {
			m.Headers[dbus.FieldReplySerial] = dbus.MakeVariant(uint32(77))
		}
		if kind == dbus.TypeError {
			m.Headers[dbus.FieldErrorName] = dbus.MakeVariant("a.b.C")
		}
		if len(body) > 0 {
			m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
		}
		return m
	}
	return map[string]*dbus.Message{
		"nothing":        of(dbus.TypeMethodReply),
		"string":         of(dbus.TypeMethodReply, dbus.MakeVariant("loaded")),
		"number":         of(dbus.TypeMethodReply, dbus.MakeVariant(uint64(1)<<63)),
		"int":            of(dbus.TypeMethodReply, dbus.MakeVariant(int32(-1))),
		"uint":           of(dbus.TypeMethodReply, dbus.MakeVariant(uint32(1))),
		"path in one":    of(dbus.TypeMethodReply, dbus.MakeVariant(dbus.ObjectPath("/a/b"))),
		"bytes":          of(dbus.TypeMethodReply, dbus.MakeVariant([]byte{1, 0, 255})),
		"strings":        of(dbus.TypeMethodReply, dbus.MakeVariant([]string{"A=b", ""})),
		"variant in one": of(dbus.TypeMethodReply, dbus.MakeVariant(dbus.MakeVariant("x"))),
		"path":           of(dbus.TypeMethodReply, dbus.ObjectPath("/org/freedesktop/systemd1/job/17")),
		"error":          of(dbus.TypeError, "no such unit"),
		"job":            of(dbus.TypeSignal, uint32(9), dbus.ObjectPath("/job/9"), "a.service", "done"),
		"owner":          of(dbus.TypeSignal, sdName, "", ":1.5"),
		"changed":        of(dbus.TypeSignal, states()...),
		"other":          of(dbus.TypeSignal, []struct{ A, B uint16 }{{1, 2}}, "x"),
	}
}

// sameMessage compares with what godbus makes of the same bytes.
func sameMessage(t *testing.T, b []byte) {
	t.Helper()
	got, err := decode(b)
	if err != nil {
		return // what is refused is never taken for something else
	}
	want, err := dbusDecode(b)
	if err != nil {
		return
	}
	header := func(f dbus.HeaderField) string {
		switch v := want.Headers[f].Value().(type) {
		case string:
			return v
		case dbus.ObjectPath:
			return string(v)
		}
		return ""
	}
	serial, _ := want.Headers[dbus.FieldReplySerial].Value().(uint32)
	if got.kind != want.Type || got.serial != serial || got.sender != header(dbus.FieldSender) || got.path != header(dbus.FieldPath) ||
		got.iface != header(dbus.FieldInterface) || got.member != header(dbus.FieldMember) || got.fault != header(dbus.FieldErrorName) {
		t.Fatalf("the header is %+v, want %v", got, want)
	}
	if signature, _ := want.Headers[dbus.FieldSignature].Value().(dbus.Signature); signature.String() == "sa{sv}as" {
		props, all := got.body[1].(map[string]dbus.Variant), want.Body[1].(map[string]dbus.Variant)
		for name, v := range all {
			if p, ok := props[name]; ok && !reflect.DeepEqual(p.Value(), v.Value()) {
				t.Fatalf("%s is %v, want %v", name, p, v)
			}
		}
		for name := range props {
			if _, ok := all[name]; !ok {
				t.Fatalf("there is no %s", name)
			}
		}
		got.body[1], got.body[2] = want.Body[1], want.Body[2]
	}
	for i := range want.Body {
		if v, ok := want.Body[i].(dbus.Variant); ok {
			if !reflect.DeepEqual(got.body[i].(dbus.Variant).Value(), v.Value()) {
				t.Fatalf("the body is %v, want %v", got.body, want.Body)
			}
		} else if !reflect.DeepEqual(got.body[i], want.Body[i]) {
			t.Fatalf("the body is %v, want %v", got.body, want.Body)
		}
	}
}

func dbusDecode(b []byte) (m *dbus.Message, err error) {
	defer func() {
		if recover() != nil {
			err = errTruncated
		}
	}()
	return dbus.DecodeMessage(bytes.NewReader(b))
}

func encoded(t testing.TB, m *dbus.Message, order binary.ByteOrder) []byte {
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
				if _, err := decode(b); err != nil {
					t.Fatal(err)
				}
				sameMessage(t, b)
				for n := fixedHeader; n < len(b); n++ {
					cut := bytes.Clone(b[:n])
					if size, err := frame(cut); err == nil && size > 0 {
						t.Fatalf("%d of %d bytes are a message", n, len(b))
					}
				}
			}
		})
	}
}

// What the pump takes arrives, and nothing of another type.
func TestDecodeTakesWhatIsFollowed(t *testing.T) {
	m, err := decode(encoded(t, samples(t)["changed"], binary.LittleEndian))
	if err != nil {
		t.Fatal(err)
	}
	props := m.body[1].(map[string]dbus.Variant)
	for name, want := range map[string]any{
		"ExecMainCode": int32(1), "ExecMainStatus": int32(-7), "ExecMainPID": uint32(4711),
		"ExecMainExitTimestamp": uint64(1) << 50, "ExecMainStartTimestamp": uint64(3), "SubState": "dead",
		"InvocationID": []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
	} {
		if got := props[name].Value(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if len(props) != 7 {
		t.Errorf("it has %v", props)
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples(f) {
		f.Add(encoded(f, m, binary.LittleEndian))
		f.Add(encoded(f, m, binary.BigEndian))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := frame(b)
		if err != nil || n == 0 {
			return
		}
		sameMessage(t, b[:n])
	})
}

func BenchmarkDecode(b *testing.B) {
	msg := encoded(b, samples(b)["changed"], binary.LittleEndian)
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			if _, err := decode(msg); err != nil {
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
