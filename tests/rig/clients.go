package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// clientPackages names what clients in other languages need, and pins it.
	clientPackages = "tests/e2e/clients/mcp"
	// modulesVariable tells the tests of clients where that is.
	modulesVariable = "UNITWARD_NODE_MODULES"
	// clientSkip begins the reason of a test that lacks it, or an interpreter.
	clientSkip = "clients"
)

// clients sees to it that there is what runs clients in other languages, and
// what they need, for the tests on the host.
func (r *report) clients(ctx context.Context, o *options) {
	start := time.Now()
	err := need(ctx, "node", "npm", "python3")
	if err == nil {
		o.modules, err = installModules(ctx, filepath.Join(o.out, "npm"))
	}
	if err != nil {
		r.cannot("clients in other languages", clientSkip, err)
		return
	}
	note("the clients' modules are there after %.1fs", time.Since(start).Seconds())
}

// installModules lets npm install what is pinned, unless an earlier call has. No
// package's own code is run.
func installModules(ctx context.Context, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	modules, stamp := filepath.Join(dir, "node_modules"), filepath.Join(dir, ".installed")
	lock, err := os.ReadFile(filepath.Join(clientPackages, "package-lock.json"))
	if err != nil {
		return "", err
	}
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, lock) {
		return modules, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755), os.CopyFS(dir, os.DirFS(clientPackages))); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
	cmd.Dir = dir
	if err := runQuietly(cmd); err != nil {
		return "", fmt.Errorf("cannot install the official client: %w", err)
	}
	return modules, os.WriteFile(stamp, lock, 0o644)
}
