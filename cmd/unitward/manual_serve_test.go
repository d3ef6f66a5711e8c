package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
)

// serveKinds are the kinds of errors with their codes.
var serveKinds = map[string]int{
	serve.KindParse: serve.CodeParse, serve.KindEncoding: serve.CodeParse, serve.KindBatch: serve.CodeRequest, serve.KindRequest: serve.CodeRequest,
	serve.KindTooLong: serve.CodeRequest, serve.KindID: serve.CodeRequest, serve.KindMethod: serve.CodeMethod, serve.KindParams: serve.CodeParams,
	serve.KindUsage: serve.CodeParams, serve.KindInternal: serve.CodeInternal, serve.KindNotFound: serve.CodeNotFound,
	serve.KindUninitialized: serve.CodeUninitialized, serve.KindExists: serve.CodeExists, serve.KindNoManager: serve.CodeNoManager,
	serve.KindIsolation: serve.CodeIsolation, serve.KindLimits: serve.CodeLimits, serve.KindStartFailed: serve.CodeStartFailed,
	serve.KindAccess: serve.CodeAccess, serve.KindUnknown: serve.CodeUnknown, serve.KindCapabilities: serve.CodeCapabilities,
	serve.KindAdmission: serve.CodeAdmission, serve.KindAborted: serve.CodeAborted, serve.KindEnded: serve.CodeEnded,
	serve.KindIdentity: serve.CodeIdentity, serve.KindStdin: serve.CodeStdin, serve.KindNotSettled: serve.CodeNotSettled,
	serve.KindState: serve.CodeState, serve.KindNotPromotable: serve.CodeNotPromotable, serve.KindShutdown: serve.CodeShutdown,
}

// serveTypes have between them every field of the protocol.
var serveTypes = []any{
	serve.InitializeParams{}, serve.InitializeResult{}, serve.RunParams{}, serve.StartResult{}, serve.RunResult{}, serve.NameParams{},
	serve.TrackParams{}, serve.JobResult{}, serve.ListParams{}, serve.ListResult{}, serve.WaitParams{}, serve.WaitResult{}, serve.StopParams{},
	serve.StopResult{}, serve.StopOwnerParams{}, serve.StopOwnerResult{}, serve.SignalParams{}, serve.Done{}, serve.WriteParams{},
	serve.WriteResult{}, serve.OutputQuery{}, serve.OutputResult{}, serve.AbortParams{}, serve.AbortResult{}, serve.Ended{}, serve.CancelParams{},
	serve.ErrorData{}, serve.Started{}, serve.Output{}, serve.Dropped{}, serve.Exited{}, serve.StreamsClosed{}, serve.TreeEmptied{}, serve.Settled{},
}

// serveNames are the names of the methods, notifications and capabilities.
func serveNames() []string {
	names := []string{
		serve.MethodInitialize, serve.MethodStart, serve.MethodRun, serve.MethodTrack, serve.MethodPromote, serve.MethodStatus, serve.MethodList,
		serve.MethodWait, serve.MethodStop, serve.MethodStopOwner, serve.MethodSignal, serve.MethodPause, serve.MethodResume, serve.MethodWrite,
		serve.MethodCloseStdin, serve.MethodOutput, serve.MethodRelease, serve.MethodAbortStart, serve.MethodDoctor, serve.MethodShutdown,
		serve.MethodCancel, serve.NotifyStarted, serve.NotifyOutput, serve.NotifyDropped, serve.NotifyExit, serve.NotifyStreams, serve.NotifyTree,
		serve.NotifySettled, serve.NotifyEnded,
	}
	for name := range serve.Capabilities() {
		names = append(names, name)
	}
	return names
}

// Every method, notification, capability, field and kind of error stands in
// unitward-serve(5), and the session that it shows is the one that a test of
// the server has had.
func TestServePage(t *testing.T) {
	_, pages := tree(t)
	page := string(pages["unitward-serve.5"])
	names := serveNames()
	for _, v := range serveTypes {
		names = append(names, fieldsOf(reflect.TypeOf(v))...)
	}
	for _, name := range names {
		if !regexp.MustCompile(`\bCm (?:\S+ , )*` + regexp.QuoteMeta(name) + `(?:\s|$)`).MatchString(page) {
			t.Errorf("unitward-serve(5) does not name %s", name)
		}
	}
	for kind, code := range serveKinds {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^\.It (?:\w+ , )*%s(?: , \w+)* Ta %d Ta `, kind, code)).MatchString(page) {
			t.Errorf("unitward-serve(5) does not name the error %s, %d", kind, code)
		}
	}
	golden, err := os.ReadFile("../../unit/serve/testdata/manual.golden")
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(page, ".Bd -literal -offset 2n\n")
	session, _, _ = strings.Cut(session, ".Ed\n")
	if want := strings.ReplaceAll(string(golden), `\`, `\e`); session != want {
		t.Errorf("unitward-serve(5) shows another session than unit/serve/testdata/manual.golden:\n%s", session)
	}
}

// fieldsOf are the names of the fields of a type and of those in it; what is in
// a report is another page's.
func fieldsOf(t reflect.Type) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return fieldsOf(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	if t.PkgPath() == reflect.TypeFor[unit.Report]().PkgPath() || t.PkgPath() == "time" || t == reflect.TypeFor[serve.Error]() {
		return nil
	}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
		names = append(names, fieldsOf(t.Field(i).Type)...)
	}
	return names
}
