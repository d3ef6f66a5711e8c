package store

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/unitward/unitward/unit"
)

// fill draws everything that can be in a value.
func fill(t *rapid.T, v reflect.Value) {
	if _, ok := v.Interface().(time.Time); ok {
		if rapid.Bool().Draw(t, "is set") {
			at := time.Unix(rapid.Int64Range(0, 1<<34).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
			v.Set(reflect.ValueOf(at.UTC()))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "is there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 2).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.SampledFrom([]string{"", "a", `"`, `\`, "<&>", "\x7f", "\xff", " ", "ü\n"}), rapid.String()).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "number"))
	default:
		t.Fatalf("nothing is known of %s", v.Type())
	}
}

// plain is what encoding/json has for a value, without what it does for HTML.
func plain(t *rapid.T, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// What is written is what encoding/json writes, without its help.
func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v any
		if rapid.Bool().Draw(t, "a record") {
			v = new(unit.Record)
		} else {
			v = new(exitRecord)
		}
		fill(t, reflect.ValueOf(v).Elem())
		b, ok := appendValue(nil, reflect.ValueOf(v))
		if want := plain(t, v); !ok || !bytes.Equal(b, want) {
			t.Fatalf("%v\n%s\nwant\n%s", ok, b, want)
		}
	})
}

// What it cannot do is left to encoding/json, whole.
func TestEncodeOther(t *testing.T) {
	type inner struct{ A int }
	for _, v := range []any{
		map[string]int{"b": 1, "a": 2}, []byte("x"), struct{ A int }{1},
		struct {
			A int `json:"-"`
		}{1},
		struct {
			A int `json:"a,string"`
		}{1},
		&struct {
			*inner
			B []any `json:"b"`
		}{&inner{1}, []any{1, "x"}},
		struct {
			A float64 `json:"a"`
		}{0.5},
	} {
		got, err := encode(v)
		want, werr := json.Marshal(v)
		if err != nil || werr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s (%v), want %s (%v)", got, err, want, werr)
		}
	}
	if b, err := encode(&unit.Record{CreatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Errorf("a year that RFC 3339 has not is %s", b)
	}
}

// A record that was written need not be read: it is what would be read, and
// nobody's change of the one changes the other.
func TestClone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rec, read unit.Record
		fill(t, reflect.ValueOf(&rec).Elem())
		b := plain(t, &rec)
		if err := json.Unmarshal(b, &read); err != nil {
			t.Fatal(err)
		}
		c := clone(&rec)
		if again := plain(t, c); !bytes.Equal(again, b) {
			t.Fatalf("%s\nwant\n%s", again, b)
		}
		// Text that is no UTF-8 is not written as it is.
		if valid := clone(&read); !reflect.DeepEqual(valid, &read) {
			t.Fatalf("%+v\nwant\n%+v", valid, &read)
		}
	})
}

// A record that is at hand is given away as a copy, and only while it is what the
// file says.
func TestKnown(t *testing.T) {
	s := fresh(t)
	e := create(t, s, "foo")
	says := func(want string) {
		t.Helper()
		rec, err := e.Record()
		if err != nil || rec.Command[0] != want {
			t.Fatalf("the record is %+v, %v; want %s", rec, err, want)
		}
		rec.Command[0] = "changed"
	}
	says("true")
	rec, err := e.Update(false, func(r *unit.Record) { r.Command = []string{"false"} })
	if err != nil {
		t.Fatal(err)
	}
	rec.Command[0] = "changed"
	says("false")
	says("false")
	other, _, err := s.Load("foo")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Update(false, func(r *unit.Record) { r.Command = []string{"sleep"} }); err != nil {
		t.Fatal(err)
	}
	says("sleep")
}
