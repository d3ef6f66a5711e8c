package main

import (
	"errors"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
)

// choices are the words that a field of a tool's input takes.
var choices = map[string][]any{
	"lifetime":  {"call", "detached"},
	"leftovers": {"kill", "wait", "keep"},
	"for":       {"exit", "streams", "tree", "settled"},
	"stream":    {"stdout", "stderr"},
	"encoding":  {"text", "base64"},
}

// typeSchemas are those of types that say less by their fields than by a word.
// A report within an error is not spelled out again.
func typeSchemas() map[reflect.Type]*jsonschema.Schema {
	object := func(description string, properties map[string]*jsonschema.Schema, required ...string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "object", Description: description, Properties: properties, Required: required}
	}
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[unit.Text]():   {Types: []string{"null", "string"}},
		reflect.TypeFor[unit.Number](): {Types: []string{"null", "integer"}},
		reflect.TypeFor[serve.Error](): object("why nothing came of the call", map[string]*jsonschema.Schema{
			"code": {Type: "integer"}, "message": {Type: "string"},
			"data": object("", map[string]*jsonschema.Schema{
				"kind":  {Type: "string", Description: "what a program decides by, such as not_found, exists, start_failed, admission, aborted"},
				"hints": {Type: "array", Items: &jsonschema.Schema{Type: "string"}},
			}, "kind", "hints"),
		}, "code", "message", "data"),
	}
}

// inputSchema is the schema of a tool's input. Its types are this package's: one
// without a schema is a mistake that every test sees.
func inputSchema[In any]() *jsonschema.Schema {
	s, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err)
	}
	for name, p := range s.Properties {
		p.Enum = choices[name]
		if p.Type == "" && len(p.Types) > 0 { // null is for Go, not for a model
			p.Type, p.Types = p.Types[len(p.Types)-1], nil
		}
	}
	return s
}

// outputSchema is the schema of a tool's result, or of the error in its place.
func outputSchema[Out any]() *jsonschema.Schema {
	s, err := jsonschema.For[Out](&jsonschema.ForOptions{TypeSchemas: typeSchemas()})
	if err != nil {
		panic(err)
	}
	s.Properties["error"] = typeSchemas()[reflect.TypeFor[serve.Error]()]
	s.AnyOf = []*jsonschema.Schema{{Required: s.Required}, {Required: []string{"error"}}}
	s.Required = nil
	return s
}

// asError is an error as the protocol has it.
func asError(err error) *serve.Error {
	var e *serve.Error
	if errors.As(err, &e) {
		return e
	}
	return &serve.Error{Code: serve.CodeInternal, Message: err.Error(), Data: serve.ErrorData{Kind: serve.KindInternal, Hints: []string{}}}
}
