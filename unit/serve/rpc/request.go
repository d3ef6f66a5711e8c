package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Request is one line of a client.
type Request struct {
	// ID is as the client wrote it, and nil for a notification.
	ID     json.RawMessage
	Method string
	// Params is nil where there were none.
	Params json.RawMessage
	// Size is the length of the line.
	Size int
}

// Codes of JSON-RPC itself.
const (
	CodeParse    = -32700
	CodeRequest  = -32600
	CodeMethod   = -32601
	CodeParams   = -32602
	CodeInternal = -32603
)

// Kinds of faults.
const (
	KindParse    = "parse"
	KindEncoding = "encoding"
	KindBatch    = "batch"
	KindRequest  = "request"
	KindParams   = "params"
)

// Fault is a line that cannot be taken.
type Fault struct {
	Code          int
	Kind, Message string
	// Field is the path of the field that is wrong; empty is the whole.
	Field string
}

func (f *Fault) Error() string { return f.Message }

func fail(code int, kind, message string) *Fault {
	return &Fault{Code: code, Kind: kind, Message: message}
}

func (f *Fault) field(name string) *Fault {
	f.Field = name
	return f
}

// maxID bounds what is repeated to a client.
const maxID = 256

// Parse reads a line. With a fault, the id is there when it could be read.
func Parse(line []byte) (Request, *Fault) {
	r := Request{Size: len(line)}
	if !utf8.Valid(line) {
		return r, fail(CodeParse, KindEncoding, "cannot read the line: it is not UTF-8")
	}
	line = bytes.TrimSpace(line)
	if !json.Valid(line) {
		return r, fail(CodeParse, KindParse, "cannot read the line: it is not JSON")
	}
	if line[0] == '[' {
		return r, fail(CodeRequest, KindBatch, "cannot take a batch: send one request a line")
	}
	fields, err := members(line)
	var field *FieldError
	switch {
	case errors.As(err, &field):
		return r, fail(CodeRequest, KindRequest, "cannot take the request: "+field.Error()).field(field.Field)
	case err != nil:
		return r, fail(CodeRequest, KindRequest, "cannot take the request: an object is expected")
	}
	version, unknown, bad := "", "", ""
	for _, m := range fields {
		switch m.name {
		case "jsonrpc":
			_ = json.Unmarshal(m.value, &version) // what is no string is not "2.0"
		case "id":
			if !identifies(m.value) {
				bad = "id"
				continue
			}
			r.ID = bytes.Clone(m.value)
		case "method":
			if json.Unmarshal(m.value, &r.Method) != nil {
				bad = "method"
			}
		case "params":
			r.Params = m.value
		default:
			unknown = m.name
		}
	}
	switch {
	case version != "2.0":
		return r, fail(CodeRequest, KindRequest, `cannot take the request: jsonrpc is not "2.0"`).field("jsonrpc")
	case bad == "id":
		return r, fail(CodeRequest, KindRequest, "cannot take the request: an id is a string or a whole number, and short").field("id")
	case bad != "", r.Method == "":
		return r, fail(CodeRequest, KindRequest, "cannot take the request: a method is expected").field("method")
	case unknown != "":
		return r, fail(CodeRequest, KindRequest, fmt.Sprintf("cannot take the request: there is no field %.200q", unknown)).field(unknown)
	case mangled(line):
		return r, fail(CodeParse, KindEncoding, "cannot read the line: an escape in it stands for half a character")
	}
	return r, nil
}

// identifies is true for what can be an id.
func identifies(v json.RawMessage) bool {
	if len(v) == 0 || len(v) > maxID {
		return false
	}
	if v[0] == '"' {
		return true
	}
	for i, c := range v {
		if (c < '0' || c > '9') && (i > 0 || c != '-') {
			return false
		}
	}
	return true
}

// Key is an id as another way of writing it has it too.
func Key(id json.RawMessage) string {
	var s string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &s) == nil {
		return "s" + s
	}
	return "n" + string(id)
}

// ReadParams reads the parameters of a request into a struct, as Decode does;
// none is an empty object.
func (r Request) ReadParams(into any) *Fault {
	if len(r.Params) == 0 || string(r.Params) == "null" {
		return nil
	}
	if err := Decode(r.Params, into); err != nil {
		var field *FieldError
		errors.As(err, &field)
		return fail(CodeParams, KindParams, err.Error()).field(field.Field)
	}
	return nil
}
