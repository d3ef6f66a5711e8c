package main

import (
	"embed"
	"io/fs"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/unitward/unitward/packaging/manual"
	"github.com/unitward/unitward/unit/keeper"
)

//go:embed manual
var prose embed.FS

// The page has every option, every tool and every field that a tool takes.
func TestManual(t *testing.T) {
	root := command(streams{}, keeper.Caller{})
	files, err := fs.Sub(prose, "manual")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := manual.Pages(root, files, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	if err != nil || len(pages) != 1 {
		t.Fatal(err, len(pages))
	}
	page := string(pages["unitward-mcp.1"])
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(page, "Fl -"+f.Name+"\n") && !strings.Contains(page, "Fl -"+f.Name+" Ar ") {
			t.Errorf("it has no --%s:\n%s", f.Name, page)
		}
	})
	names := []string{"run", "start", "wait", "status", "stop", "logs", "list", "release", "doctor"}
	for _, in := range []reflect.Type{reflect.TypeFor[runInput](), reflect.TypeFor[waitInput](), reflect.TypeFor[stopInput](), reflect.TypeFor[logsInput](), reflect.TypeFor[listInput]()} {
		for _, f := range reflect.VisibleFields(in) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if !regexp.MustCompile(`\.(It )?Cm ` + name + `\b`).MatchString(page) {
			t.Errorf("it has no %s", name)
		}
	}
}
