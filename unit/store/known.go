package store

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/unitward/unitward/unit"
)

// known is the record as it was last written or read through an entry. While the
// file has the same bytes it need not be decoded again: the first decoding of a
// process takes as long as its first encoding (see encode).
type known struct {
	mu    sync.Mutex
	bytes []byte
	rec   *unit.Record
}

// get is a copy of the record; nil where the file says something else.
func (k *known) get(b []byte) *unit.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rec == nil || !bytes.Equal(b, k.bytes) {
		return nil
	}
	return clone(k.rec)
}

func (k *known) set(b []byte, rec *unit.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes, k.rec = b, clone(rec)
}

// clone is the record as it would be read after it was written.
func clone(rec *unit.Record) *unit.Record {
	return copied(reflect.ValueOf(rec)).Interface().(*unit.Record)
}

func copied(v reflect.Value) reflect.Value {
	if t, ok := v.Interface().(time.Time); ok {
		return reflect.ValueOf(t.Round(0)) // of the monotonic clock nothing is written
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		to := reflect.New(v.Type().Elem())
		to.Elem().Set(copied(v.Elem()))
		return to
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		to := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			to.Index(i).Set(copied(v.Index(i)))
		}
		return to
	case reflect.Struct:
		to := reflect.New(v.Type()).Elem()
		for i, t := 0, v.Type(); i < t.NumField(); i++ {
			if _, rest, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); rest != "omitempty" || !empty(v.Field(i)) {
				to.Field(i).Set(copied(v.Field(i)))
			}
		}
		return to
	}
	return v
}
