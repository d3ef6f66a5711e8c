package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// reportFields are the names of a report's fields, at every depth.
func reportFields() []string {
	var names []string
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), "github.com/unitward/") {
			return
		}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
			walk(t.Field(i).Type)
		}
	}
	walk(reflect.TypeFor[unit.Report]())
	return names
}

// reportValues are the words that stand for a kind of something.
var reportValues = []string{
	string(unit.StateStarting), string(unit.StateRunning), string(unit.StateStopping), string(unit.StateEnded), string(unit.StateSettled), string(unit.StateUnknown),
	string(unit.ReasonCompleted), string(unit.ReasonFailed), string(unit.ReasonSignaled), string(unit.ReasonTimeout), string(unit.ReasonOOM),
	string(unit.ReasonOutputLimit), string(unit.ReasonCancelled), string(unit.ReasonStartFailed), string(unit.ReasonUnknown),
	verify.IsolationService, verify.IsolationScope, verify.IsolationCgroup, verify.IsolationGroup,
	string(verify.GradeProven), string(verify.GradeWeak), string(unit.LifetimeCall), string(unit.LifetimeOwner), string(unit.LifetimeDetached),
	unit.ReportSchema,
}
