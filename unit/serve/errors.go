package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve/rpc"
	"github.com/unitward/unitward/unit/store"
)

// Codes of errors. The first five are JSON-RPC's own.
const (
	CodeParse         = rpc.CodeParse
	CodeRequest       = rpc.CodeRequest
	CodeMethod        = rpc.CodeMethod
	CodeParams        = rpc.CodeParams
	CodeInternal      = rpc.CodeInternal
	CodeNotFound      = -32001
	CodeUninitialized = -32002
	CodeExists        = -32003
	CodeNoManager     = -32004
	CodeIsolation     = -32005
	CodeLimits        = -32006
	CodeStartFailed   = -32007
	CodeAccess        = -32008
	CodeUnknown       = -32009
	CodeCapabilities  = -32010
	CodeAdmission     = -32011
	CodeAborted       = -32012
	CodeEnded         = -32013
	CodeIdentity      = -32014
	CodeStdin         = -32015
	CodeNotSettled    = -32016
	CodeState         = -32017
	CodeNotPromotable = -32018
	CodeShutdown      = -32019
)

// Kinds of errors: what a program decides by.
const (
	KindParse    = rpc.KindParse
	KindEncoding = rpc.KindEncoding
	KindBatch    = rpc.KindBatch
	KindRequest  = rpc.KindRequest
	KindParams   = rpc.KindParams
	KindTooLong  = "too_long"
	KindID       = "duplicate_id"
	KindMethod   = "method"
	KindUsage    = "usage"
	KindInternal = "internal"

	KindNotFound      = "not_found"
	KindUninitialized = "not_initialized"
	KindExists        = "exists"
	KindNoManager     = "no_manager"
	KindIsolation     = "isolation"
	KindLimits        = "limits"
	KindStartFailed   = "start_failed"
	KindAccess        = "access"
	KindUnknown       = "unknown_outcome"
	KindCapabilities  = "capabilities_missing"
	KindAdmission     = "admission"
	KindAborted       = "aborted"
	KindEnded         = "ended"
	KindIdentity      = "identity"
	KindStdin         = "stdin"
	KindNotSettled    = "not_settled"
	KindState         = "state"
	KindNotPromotable = "not_promotable"
	KindShutdown      = "shutting_down"
)

// Error is an error as JSON-RPC has it.
type Error struct {
	Code    int       `json:"code"`
	Message string    `json:"message"`
	Data    ErrorData `json:"data"`
}

// ErrorData is what a program needs to know of an error.
type ErrorData struct {
	Kind string `json:"kind"`
	// Hints say what would help.
	Hints []string `json:"hints"`
	// Field is the path of the field that is wrong.
	Field string `json:"field,omitempty"`
	// Status is, for a command that could not be started, what a shell would
	// exit with: 125, 126 or 127.
	Status int `json:"status,omitempty"`
	// Missing are capabilities.
	Missing []string `json:"missing,omitempty"`
	// Refused says why isolations were not taken.
	Refused []unit.Refusal `json:"refused,omitempty"`
	// Name is the job that the error is about.
	Name string `json:"name,omitempty"`
	// ID is the request's that was refused because one of that id is under
	// way, whose answer is still to come.
	ID json.RawMessage `json:"id,omitempty"`
	// Room is how many bytes would have been taken.
	Room *int `json:"room,omitempty"`
	// Report is what is known of the job.
	Report *unit.Report `json:"report,omitempty"`
}

func (e *Error) Error() string { return e.Message }

func fail(code int, kind, message string, hints ...string) *Error {
	return &Error{code, message, ErrorData{Kind: kind, Hints: append([]string{}, hints...)}}
}

func (e *Error) field(name string) *Error {
	e.Data.Field = name
	return e
}

// asFault is a line that cannot be taken.
func asFault(f *rpc.Fault) *Error { return fail(f.Code, f.Kind, f.Message).field(f.Field) }

// wrong is a parameter that cannot be used. value is what it was given; nil is
// nothing to show.
func wrong(field string, value any, problem string, hints ...string) *Error {
	what := field
	switch v := value.(type) {
	case nil:
	case string:
		what += " " + launch.Quote(v)
	default:
		what += fmt.Sprint(" ", v)
	}
	return fail(CodeParams, KindUsage, "cannot use "+what+": "+problem, hints...).field(field)
}

// chosen is a fault for a parameter that has none of the values that it can have.
func chosen(field, value string, allowed ...string) *Error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return wrong(field, value, "one of "+strings.Join(allowed, ", ")+" is expected")
}

// asError turns an error of the floors below into one of the protocol.
func asError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	e := fail(CodeInternal, KindInternal, err.Error(), hints(err)...)
	is := func(code int, kind string) { e.Code, e.Data.Kind = code, kind }
	var (
		notFound  *unit.NotFoundError
		exists    *unit.ExistsError
		taken     *unit.UnitExistsError
		noManager *unit.NoManagerError
		isolation *unit.IsolationError
		limits    *unit.LimitsError
		start     *unit.StartError
		access    *unit.AccessError
		unknown   *unit.UnknownOutcomeError
		lost      *unit.RecordLostError
		ended     *unit.EndedError
		identity  *unit.IdentityError
		kept      *launch.KeptError
		property  *unit.PropertyError
		place     *capture.CursorError
		syntax    *capture.CursorSyntaxError
		dir       *store.DirError
		stray     *store.StrayError
		corrupt   *store.CorruptError
	)
	switch {
	case errors.As(err, &unknown):
		is(CodeUnknown, KindUnknown)
		e.Data.Name = unknown.Job
	case errors.As(err, &lost):
		is(CodeUnknown, KindUnknown) // it ran, and its outcome is lost
		e.Data.Name = lost.Name
	case errors.As(err, &notFound):
		is(CodeNotFound, KindNotFound)
		e.Data.Name = notFound.Name
	case errors.As(err, &exists):
		is(CodeExists, KindExists)
		e.Data.Name = exists.Name
	case errors.As(err, &taken):
		is(CodeExists, KindExists)
	case errors.As(err, &limits):
		is(CodeLimits, KindLimits)
	case errors.As(err, &isolation):
		is(CodeIsolation, KindIsolation)
		e.Data.Refused = isolation.Refused
	case errors.As(err, &noManager):
		is(CodeNoManager, KindNoManager)
	case errors.As(err, &access):
		is(CodeAccess, KindAccess)
	case errors.As(err, &start):
		is(CodeStartFailed, KindStartFailed)
		e.Data.Status = start.Status
	case errors.As(err, &property):
		is(CodeParams, KindUsage)
		e.Data.Field = "properties"
	case errors.As(err, &ended):
		is(CodeEnded, KindEnded)
		e.Data.Name = ended.Name
	case errors.As(err, &identity):
		is(CodeIdentity, KindIdentity)
		e.Data.Name = identity.Name
	case errors.As(err, &kept):
		is(CodeNotSettled, KindNotSettled)
		e.Data.Name = kept.Name
	case errors.As(err, &place), errors.As(err, &syntax):
		is(CodeParams, KindUsage)
		e.Data.Field = "cursor"
	case errors.As(err, &dir), errors.As(err, &stray), errors.As(err, &corrupt):
		is(CodeState, KindState)
	case errors.Is(err, unit.ErrUsage):
		is(CodeParams, KindUsage)
	case errors.Is(err, context.Canceled):
		is(CodeAborted, KindAborted)
	}
	return e
}

// startError is asError for a start of which nothing ran: whatever is left is
// its failure.
func startError(err error) *Error {
	e := asError(err)
	if e.Data.Kind == KindInternal {
		e.Code, e.Data.Kind, e.Data.Status = CodeStartFailed, KindStartFailed, statusNoRun
	}
	return e
}

// statusNoRun is what a shell shim exits with when nothing ran.
const statusNoRun = 125

func hints(err error) []string {
	var h interface{ Hint() []string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return nil
}
