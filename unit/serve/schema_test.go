package serve_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/unit/serve/rpc"
)

var update = flag.Bool("update", false, "write the schema and the transcripts anew")

// exchange is one method: what is sent and what comes back.
type exchange struct{ params, result any }

var requests = map[string]exchange{
	serve.MethodInitialize: {serve.InitializeParams{}, serve.InitializeResult{}},
	serve.MethodStart:      {serve.StartParams{}, serve.StartResult{}},
	serve.MethodRun:        {serve.RunParams{}, serve.RunResult{}},
	serve.MethodTrack:      {serve.TrackParams{}, serve.JobResult{}},
	serve.MethodPromote:    {serve.NameParams{}, serve.JobResult{}},
	serve.MethodStatus:     {serve.NameParams{}, serve.JobResult{}},
	serve.MethodList:       {serve.ListParams{}, serve.ListResult{}},
	serve.MethodWait:       {serve.WaitParams{}, serve.WaitResult{}},
	serve.MethodStop:       {serve.StopParams{}, serve.StopResult{}},
	serve.MethodStopOwner:  {serve.StopOwnerParams{}, serve.StopOwnerResult{}},
	serve.MethodSignal:     {serve.SignalParams{}, serve.Done{}},
	serve.MethodPause:      {serve.NameParams{}, serve.Done{}},
	serve.MethodResume:     {serve.NameParams{}, serve.Done{}},
	serve.MethodWrite:      {serve.WriteParams{}, serve.WriteResult{}},
	serve.MethodCloseStdin: {serve.NameParams{}, serve.Done{}},
	serve.MethodOutput:     {serve.OutputQuery{}, serve.OutputResult{}},
	serve.MethodRelease:    {serve.NameParams{}, serve.Done{}},
	serve.MethodAbortStart: {serve.AbortParams{}, serve.AbortResult{}},
	serve.MethodDoctor:     {serve.Empty{}, serve.DoctorResult{}},
	serve.MethodShutdown:   {serve.Empty{}, serve.Ended{}},
	serve.MethodCancel:     {serve.CancelParams{}, nil},
}

var notifications = map[string]any{
	serve.NotifyStarted: serve.Started{}, serve.NotifyOutput: serve.Output{}, serve.NotifyDropped: serve.Dropped{}, serve.NotifyExit: serve.Exited{},
	serve.NotifyStreams: serve.StreamsClosed{}, serve.NotifyTree: serve.TreeEmptied{}, serve.NotifySettled: serve.Settled{}, serve.NotifyEnded: serve.Ended{},
}

// object is a JSON Schema, or part of one.
type object = map[string]any

// schemas writes Go types down as JSON Schema.
type schemas struct{ defs object }

func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[rpc.Text]():
		return object{"anyOf": []any{object{"type": "string"}, object{
			"type": "object", "properties": object{"base64": object{"type": "string", "contentEncoding": "base64"}}, "required": []string{"base64"}, "additionalProperties": false,
		}}}
	case reflect.TypeFor[unit.Text](), reflect.TypeFor[unit.Number]():
		plain := reflect.TypeFor[string]()
		if t.Kind() == reflect.Int {
			plain = reflect.TypeFor[int]()
		}
		return s.of(reflect.PointerTo(plain))
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{"type": []string{"string", "integer"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return object{"anyOf": []any{s.of(t.Elem()), object{"type": "null"}}}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Struct:
		name := t.Name()
		if _, ok := s.defs[name]; !ok {
			s.defs[name] = object{} // it may refer to itself
			s.defs[name] = s.structure(t)
		}
		return object{"$ref": "#/$defs/" + name}
	}
	panic(t.String() + " has no schema")
}

func (s *schemas) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	s.fields(t, properties, &required)
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.fields(f.Type, properties, required)
		case name == "-" || !f.IsExported():
		case name == "":
			panic(t.String() + "." + f.Name + " has no name")
		default:
			properties[name] = s.of(f.Type)
			if !strings.Contains(options, "omit") {
				*required = append(*required, name)
			}
		}
	}
}

// The schema in the tree is that of the types.
func TestSchema(t *testing.T) {
	s := &schemas{defs: object{}}
	methods, notes := object{}, object{}
	for name, e := range requests {
		m := object{"params": s.of(reflect.TypeOf(e.params))}
		if e.result != nil {
			m["result"] = s.of(reflect.TypeOf(e.result))
		}
		methods[name] = object{"type": "object", "properties": m}
	}
	for name, v := range notifications {
		notes[name] = s.of(reflect.TypeOf(v))
	}
	methodNames := names(methods)
	noteNames := names(notes)
	doc := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "unitward serve, protocol 1",
		"$comment": "One message a line. methods and notifications have the parameters and results by name; a client's message is a request, " +
			"a server's an answer or a notification.",
		"oneOf":   []any{object{"$ref": "#/$defs/Request"}, object{"$ref": "#/$defs/Answer"}, object{"$ref": "#/$defs/Failure"}, object{"$ref": "#/$defs/Notification"}},
		"methods": methods, "notifications": notes, "$defs": s.defs,
	}
	id := object{"type": []string{"string", "integer"}}
	s.of(reflect.TypeFor[serve.Error]())
	s.defs["Request"] = object{"type": "object", "additionalProperties": false, "required": []string{"jsonrpc", "method"},
		"properties": object{"jsonrpc": object{"const": "2.0"}, "id": id, "method": object{"enum": methodNames}, "params": object{"type": []string{"object", "null"}}}}
	s.defs["Answer"] = object{"type": "object", "additionalProperties": false, "required": []string{"jsonrpc", "id", "result"},
		"properties": object{"jsonrpc": object{"const": "2.0"}, "id": id, "result": object{"type": "object"}}}
	s.defs["Failure"] = object{"type": "object", "additionalProperties": false, "required": []string{"jsonrpc", "id", "error"},
		"properties": object{"jsonrpc": object{"const": "2.0"}, "id": object{"type": []string{"string", "integer", "null"}}, "error": object{"$ref": "#/$defs/Error"}}}
	s.defs["Notification"] = object{"type": "object", "additionalProperties": false, "required": []string{"jsonrpc", "method", "params"},
		"properties": object{"jsonrpc": object{"const": "2.0"}, "method": object{"enum": noteNames}, "params": object{"type": "object"}}}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/schema.json", b.Bytes())
}

func names(of object) (all []string) {
	for name := range of {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

// golden compares with a file of the tree.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not that of the types: go test ./unit/serve -update writes it anew\n%s", file, difference(string(want), string(got)))
	}
}

// difference is the first lines that differ.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "want " + a[i] + "\ngot  " + b[i]
		}
	}
	return "one is longer"
}
