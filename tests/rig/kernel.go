package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// fetchKernel runs in a mmdebstrap that installs nothing, with the suite's
// package lists: the host's own lists stay as they are. Newer suites have the
// image itself in a package that the first one depends on.
const fetchKernel = `set -e
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
dep() { apt-cache depends "$1" | awk -v p="  Depends: linux-$2-" 'index($0, p) == 1 { print $2; exit }'; }
image=$(dep linux-image-cloud-amd64 image)
cd "$RIG_KERNEL" && apt-get -o APT::Sandbox::User=root download "$image" $(dep "$image" binary)
`

// vmModules are the kernel's modules that a machine has, where they are not
// built in, as /opt/rig/modules: a test loads what it needs.
var vmModules = []string{"fuse"}

// Kernel returns the path of the suite's own kernel, with a directory modules
// beside it, and fetches it first where it is not there yet.
func Kernel(ctx context.Context, s Suite) (string, error) {
	dir := filepath.Join(stateDir(), "kernel-"+s.Name)
	held, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer held.Close()
	at := filepath.Join(dir, "vmlinuz")
	if _, err := os.Stat(filepath.Join(dir, "modules")); err == nil {
		return at, nil
	}
	if err := need(ctx, "mmdebstrap", "dpkg-deb"); err != nil {
		return "", err
	}
	note("fetching the kernel of %s", s.Name)
	tmp := dir + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	cmd := contained(ctx, "mmdebstrap", "--quiet", "--mode=root", "--variant=custom", "--format=null",
		`--aptopt=Acquire::Check-Valid-Until "false"`, `--aptopt=Acquire::Retries "3"`,
		"--customize-hook="+fetchKernel, s.Name, "/dev/null", mirror())
	cmd.Env = append(os.Environ(), "RIG_KERNEL="+tmp)
	if err := runQuietly(cmd); err != nil {
		return "", fmt.Errorf("cannot fetch the kernel of %s: %w", s.Name, err)
	}
	debs, _ := filepath.Glob(filepath.Join(tmp, "*.deb"))
	for _, deb := range debs {
		if err := runQuietly(exec.CommandContext(ctx, "dpkg-deb", "-x", deb, tmp)); err != nil {
			return "", fmt.Errorf("cannot unpack the kernel of %s: %w", s.Name, err)
		}
	}
	return at, keepKernel(tmp, dir)
}

// keepKernel moves the kernel and the modules that machines have from the
// unpacked packages to dir.
func keepKernel(unpacked, dir string) error {
	k, err := unpackedKernel(unpacked)
	if err != nil {
		return err
	}
	kept := filepath.Join(unpacked, "kept")
	if err := os.MkdirAll(filepath.Join(kept, "modules"), 0o755); err != nil {
		return err
	}
	if err := os.Rename(k, filepath.Join(kept, "vmlinuz")); err != nil {
		return err
	}
	for _, name := range vmModules {
		for _, lib := range []string{"lib", "usr/lib"} {
			found, _ := filepath.Glob(filepath.Join(unpacked, lib, "modules/*/kernel/fs", name, name+".ko*"))
			for _, path := range found {
				if err := os.Rename(path, filepath.Join(kept, "modules", filepath.Base(path))); err != nil {
					return err
				}
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(kept, dir)
}

// unpackedKernel looks where Debian has put kernels over the years.
func unpackedKernel(dir string) (string, error) {
	for _, pattern := range []string{"boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("cannot find a kernel in the packages that were fetched")
}
