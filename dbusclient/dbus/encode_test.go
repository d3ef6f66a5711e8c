package dbus_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	godbus "github.com/godbus/dbus/v5"

	"github.com/unitward/unitward/dbusclient/dbus"
)

type word string

type pair[V any] struct {
	Name  string
	Value V
}

type nested[V any] struct {
	Flag  bool
	Names []string
	Pairs []pair[V]
	Small int16
	Tiny  byte
}

// theirs are bodies, as this package and as godbus has them.
var theirs = []struct {
	signature  dbus.Signature
	ours, them []any
}{
	{"", nil, nil},
	{"s", []any{"ä"}, []any{"ä"}},
	{"s", []any{word("w")}, []any{"w"}},
	{"bb", []any{true, false}, []any{true, false}},
	{"ybnqiuxtd", []any{byte(1), true, int16(-2), uint16(3), int32(-4), uint32(5), int64(-6), uint64(7), 1.5}, []any{byte(1), true, int16(-2), uint16(3), int32(-4), uint32(5), int64(-6), uint64(7), 1.5}},
	{"yas", []any{byte(9), []string{"a", ""}}, []any{byte(9), []string{"a", ""}}},
	{"yat", []any{byte(9), []uint64{}}, []any{byte(9), []uint64{}}},
	{"ay", []any{[]byte{0, 255}}, []any{[]byte{0, 255}}},
	{"aay", []any{[][]byte{{1}, {}}}, []any{[][]byte{{1}, {}}}},
	{"yai", []any{byte(1), []int32{-1}}, []any{byte(1), []int32{-1}}},
	{"og", []any{dbus.ObjectPath("/a/_b1"), dbus.Signature("a(sv)")}, []any{godbus.ObjectPath("/a/_b1"), godbus.ParseSignatureMust("a(sv)")}},
	{"v", []any{dbus.MakeVariant("x")}, []any{godbus.MakeVariant("x")}},
	{"yv", []any{byte(1), dbus.MakeVariant(dbus.MakeVariant(uint64(5)))}, []any{byte(1), godbus.MakeVariant(godbus.MakeVariant(uint64(5)))}},
	{"a(sv)", []any{[]pair[dbus.Variant]{{"A", dbus.MakeVariant([]string{"x"})}, {"B", dbus.MakeVariant(true)}}}, []any{[]pair[godbus.Variant]{{"A", godbus.MakeVariant([]string{"x"})}, {"B", godbus.MakeVariant(true)}}}},
	{"ya(basa(sv)ny)", []any{byte(1), []nested[dbus.Variant]{{true, []string{"n"}, []pair[dbus.Variant]{{"p", dbus.MakeVariant(int32(1))}}, -3, 4}, {}}[:1]},
		[]any{byte(1), []nested[godbus.Variant]{{true, []string{"n"}, []pair[godbus.Variant]{{"p", godbus.MakeVariant(int32(1))}}, -3, 4}}}},
}

// What is encoded is what godbus encodes.
func TestEncode(t *testing.T) {
	for _, c := range theirs {
		t.Run(string(c.signature), func(t *testing.T) {
			m := &dbus.Message{
				Kind: dbus.Call, Flags: dbus.NoAutoStart | dbus.NoReplyExpected, Serial: 5, Path: "/a", Interface: "i.f", Member: "M", Destination: "a.b", Body: c.ours,
			}
			got, fds, err := m.Append([]byte("before")) // nothing of what is before counts
			if err != nil || len(fds) > 0 {
				t.Fatalf("%v, %v", fds, err)
			}
			got = got[len("before"):]
			if n, err := dbus.Frame(got); n != len(got) || err != nil {
				t.Fatalf("a frame of %d in %d bytes, %v", n, len(got), err)
			}
			them, err := dbusDecode(got)
			if err != nil {
				t.Fatalf("godbus: %v", err)
			}
			if err := them.IsValid(); err != nil || them.Type != godbus.TypeMethodCall || them.Flags != godbus.FlagNoAutoStart|godbus.FlagNoReplyExpected || them.Serial() != 5 {
				t.Errorf("godbus reads %v, %v", them, err)
			}
			for field, want := range map[godbus.HeaderField]any{
				godbus.FieldPath: godbus.ObjectPath("/a"), godbus.FieldInterface: "i.f", godbus.FieldMember: "M", godbus.FieldDestination: "a.b",
			} {
				if got := them.Headers[field].Value(); got != want {
					t.Errorf("field %d is %v, want %v", field, got, want)
				}
			}
			if c.signature == "" {
				return
			}
			if got := fmt.Sprint(them.Headers[godbus.FieldSignature].Value()); got != string(c.signature) {
				t.Errorf("the signature is %s", got)
			}
			want := encoded(t, &godbus.Message{Type: godbus.TypeMethodReply, Body: c.them, Headers: map[godbus.HeaderField]godbus.Variant{
				godbus.FieldReplySerial: godbus.MakeVariant(uint32(1)), godbus.FieldSignature: godbus.MakeVariant(godbus.SignatureOf(c.them...)),
			}}, binary.LittleEndian)
			n := int(binary.LittleEndian.Uint32(want[4:]))
			if m := int(binary.LittleEndian.Uint32(got[4:])); m != n || !bytes.Equal(got[len(got)-n:], want[len(want)-n:]) {
				t.Errorf("the body is %q, want %q", got[len(got)-m:], want[len(want)-n:])
			}
			sameMessage(t, got)
		})
	}
}

func TestEncodeDescriptors(t *testing.T) {
	m := &dbus.Message{Kind: dbus.Call, Serial: 1, Path: "/", Member: "M", Body: []any{
		dbus.UnixFD(7), []pair[dbus.Variant]{{"a", dbus.MakeVariant([]dbus.UnixFD{9, 7})}},
	}}
	b, fds, err := m.Append(nil)
	if err != nil || !slices.Equal(fds, []int{7, 9, 7}) {
		t.Fatalf("%v, %v", fds, err)
	}
	got, err := dbus.Decode(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprint(got.Body); s != "[0 [[a {[1 2]}]]]" {
		t.Errorf("the body is %s", s)
	}
	them, err := dbusDecode(b)
	if n := them.Headers[godbus.FieldUnixFDs].Value(); err != nil || n != uint32(3) {
		t.Errorf("%v descriptors, %v", n, err)
	}
}

// What D-Bus cannot carry is an error, with nothing to send: a peer would end
// the connection over it.
func TestEncodeRefuses(t *testing.T) {
	long := make([]dbus.Variant, 256)
	for name, m := range map[string]*dbus.Message{
		"no UTF-8":           {Body: []any{"\xff"}},
		"NUL":                {Body: []any{[]string{"a", "b\x00"}}},
		"no UTF-8, deep":     {Body: []any{[]pair[dbus.Variant]{{"a", dbus.MakeVariant("\xff")}}}},
		"nothing":            {Body: []any{nil}},
		"an empty variant":   {Body: []any{dbus.Variant{}}},
		"a long type":        {Body: []any{dbus.Signature(strings.Repeat("u", 256))}},
		"a hidden field":     {Body: []any{struct{ hidden uint32 }{1}}},
		"a channel":          {Body: []any{make(chan int)}},
		"a channel, deep":    {Body: []any{dbus.MakeVariant([]chan int{})}},
		"a map":              {Body: []any{map[string]string{}}},
		"an empty struct":    {Body: []any{struct{}{}}},
		"an int":             {Body: []any{1}},
		"no path":            {Path: "a"},
		"a path with a dash": {Path: "/a-b"},
		"a path that ends":   {Path: "/a/"},
		"an empty element":   {Path: "//a"},
		"a path, deep":       {Body: []any{[]dbus.ObjectPath{"/", ""}}},
		"a NUL in the head":  {Path: "/", Member: "a\x00"},
		"a long signature":   {Body: []any{string(make([]byte, 0)), long[0], nil}},
		"too many arguments": {Body: slices.Repeat([]any{"x"}, 256)},
		"a long array":       {Body: []any{[]string{strings.Repeat("x", 1<<26)}}},
		"a long message":     {Body: slices.Repeat([]any{strings.Repeat("x", 1<<26-8)}, 2)},
	} {
		out, fds, err := m.Append([]byte("kept"))
		var never *dbus.EncodeError
		if !errors.As(err, &never) || never.Error() == "" || string(out) != "kept" || fds != nil {
			t.Errorf("%s: %.20q, %v, %v", name, out, fds, err)
		}
	}
}

func TestStore(t *testing.T) {
	body := []any{"s", dbus.ObjectPath("/p"), true, int32(-1), uint32(1), uint64(math.MaxUint64), []byte{1}, []string{"a"}, dbus.MakeVariant("v")}
	var (
		s    string
		p    dbus.ObjectPath
		b    bool
		i    int32
		u    uint32
		n    uint64
		raw  []byte
		many []string
		v    dbus.Variant
	)
	if err := dbus.Store(body, &s, &p, &b, &i, &u, &n, &raw, &many, &v); err != nil {
		t.Fatal(err)
	}
	if s != "s" || p != "/p" || !b || i != -1 || u != 1 || n != math.MaxUint64 || !bytes.Equal(raw, []byte{1}) || !slices.Equal(many, []string{"a"}) || v.Value() != "v" {
		t.Errorf("%v %v %v %v %v %v %v %v %v", s, p, b, i, u, n, raw, many, v)
	}
	if err := dbus.Store(body[:1], &s, &p); err == nil {
		t.Error("two values of one were stored")
	}
	if err := dbus.Store([]any{uint32(1)}, &s); err == nil || s != "s" {
		t.Errorf("a number became the string %q, %v", s, err)
	}
	if err := dbus.Store([]any{1}, new(int)); err == nil {
		t.Error("an int was stored")
	}
}

// A message that leads nowhere ends.
func TestDecodeRefuses(t *testing.T) {
	with := func(signature string, body ...byte) []byte {
		m := &dbus.Message{Kind: dbus.Reply, Serial: 1, ReplySerial: 1, Body: []any{dbus.Signature("")}}
		b, _, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		b = b[:len(b)-2] // the body
		// The signature is the last field: g, one byte long.
		b = append(b[:bytes.LastIndexByte(b, 'g')-1], append(append([]byte{byte(len(signature))}, signature...), 0)...)
		binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-dbus.FixedHeader))
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		binary.LittleEndian.PutUint32(b[4:], uint32(len(body)))
		return append(b, body...)
	}
	// within is a byte in n arrays.
	within := func(n int) (b []byte) {
		for ; n > 0; n-- {
			b = binary.LittleEndian.AppendUint32(b, uint32(4*n-3))
		}
		return append(b, 1)
	}
	// nested is an a{sv} with n others in one another.
	nested := func(n int) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(24*n))
		b = append(b, 0, 0, 0, 0)
		for ; n > 0; n-- {
			b = append(b, "\x01\x00\x00\x00x\x00\x05a{sv}\x00\x00\x00\x00"...)
			b = binary.LittleEndian.AppendUint32(b, uint32(24*(n-1)))
			b = append(b, 0, 0, 0, 0)
		}
		return b
	}
	if m, err := dbus.Decode(with("a{sv}", nested(3)...), nil); err != nil || len(m.Body) != 1 {
		t.Fatalf("%v, %v", m, err)
	}
	short := with("u", 7, 0, 0, 0)
	binary.LittleEndian.PutUint32(short[12:], binary.LittleEndian.Uint32(short[12:])-1)
	if m, err := dbus.Decode(with("aaay", within(3)...), nil); err != nil || fmt.Sprint(m.Body) != "[[[[1]]]]" {
		t.Fatalf("%v, %v", m, err)
	}
	if m, err := dbus.Decode(with("u", 7, 0, 0, 0), nil); err != nil || m.Body[0] != uint32(7) {
		t.Fatalf("%v, %v", m, err)
	}
	for name, b := range map[string][]byte{
		"no value":                with("u", 1),
		"no such type":            with("?", 1, 2, 3, 4, 5, 6, 7, 8),
		"an array of nothing":     with("a", 0, 0, 0, 0),
		"empty structs":           with("a()", 8, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
		"an open struct":          with("(u", 1, 0, 0, 0),
		"a closed struct":         with("u)", 1, 0, 0, 0),
		"an array past the end":   with("as", 255, 255, 255, 127),
		"an element past it":      with("as", 2, 0, 0, 0, 1, 0, 0, 0, 'x', 0),
		"a variant of two":        with("v", 2, 'u', 'u', 0, 1, 0, 0, 0, 1, 0, 0, 0),
		"a variant of none":       with("v", 0, 0),
		"variants without an end": with("v", bytes.Repeat([]byte{1, 'v', 0}, 99)...),
		"arrays without an end":   with(strings.Repeat("a", 99)+"y", within(99)...),
		"a string past the end":   with("s", 9, 0, 0, 0, 'x', 0),
		"dictionaries likewise":   with("a{sv}", nested(99)...),
		"more than its values":    with("u", 7, 0, 0, 0, 1),
		"a field past the header": short,
	} {
		if m, err := dbus.Decode(b, nil); err == nil {
			t.Errorf("%s became %v", name, m.Body)
		}
	}
}

// What a start sends is of this kind.
func BenchmarkEncode(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			var props []pair[dbus.Variant]
			for range 30 {
				props = append(props, pair[dbus.Variant]{"LimitNOFILESoft", dbus.MakeVariant(uint64(1024))})
			}
			m := dbus.Message{Kind: dbus.Call, Serial: 1, Path: "/a", Member: "M", Body: []any{"x", "fail", props}}
			if _, _, err := m.Append(nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("godbus", func(b *testing.B) {
		for b.Loop() {
			var props []pair[godbus.Variant]
			for range 30 {
				props = append(props, pair[godbus.Variant]{"LimitNOFILESoft", godbus.MakeVariant(uint64(1024))})
			}
			m := godbus.Message{Type: godbus.TypeMethodCall, Body: []any{"x", "fail", props}, Headers: map[godbus.HeaderField]godbus.Variant{
				godbus.FieldPath: godbus.MakeVariant(godbus.ObjectPath("/a")), godbus.FieldMember: godbus.MakeVariant("M"),
				godbus.FieldSignature: godbus.MakeVariant(godbus.SignatureOf("x", "fail", props)),
			}}
			if err := m.EncodeTo(&bytes.Buffer{}, binary.LittleEndian); err != nil {
				b.Fatal(err)
			}
		}
	})
}
