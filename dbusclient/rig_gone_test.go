package dbusclient

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
)

// A manager of which a directory of units has changed, as by the upgrade of a
// package, is asked for a scope that is gone, and goes on: see link.ref.
func TestRigGoneScope(t *testing.T) {
	if os.Getenv("UNITWARD_RIG") == "" {
		if strings.Contains(os.Getenv("UNITWARD_REQUIRE"), "rig") {
			t.Fatal("rig: required, but UNITWARD_RIG is not set")
		}
		t.Skip("rig: needs a systemd manager of its own; make test-rig has them")
	}
	manager, dir := unit.ManagerSystem, "/etc/systemd/system"
	if os.Geteuid() != 0 {
		manager, dir = unit.ManagerUser, filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "systemd/user")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Dial(ctx, manager, Environment{Getenv: os.Getenv, UID: os.Geteuid()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"unitward-gone-a.scope", "unitward-gone-b.scope"} {
		file := filepath.Join(dir, "unitward-gone.slice")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		u, err := c.Open(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if r := u.ReadScope(ctx); !r.Read || r.LoadState != "not-found" {
			t.Errorf("%s: %+v", name, r)
		}
		if loaded, err := c.Loaded(ctx, "-.slice"); err != nil || !loaded {
			t.Fatalf("the manager after it: %v, %v", loaded, err)
		}
		u.Close()
	}
}
