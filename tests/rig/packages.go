package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// packageTests are the tests of packages: on the host of what is in them,
	// in the machines of what becomes of them there.
	packageTests = "tests/packages"
	// terminalTests need a terminal in the machines.
	terminalTests = "tests/e2e"
	// packagesVariable tells these tests where the packages are.
	packagesVariable = "UNITWARD_PACKAGES"
	// packageSkip begins the reason of a test that lacks them.
	packageSkip = "packages"
	// olderVersion is lower than every other, for dpkg and for rpm.
	olderVersion = "0.0.0~a"
)

// machineSkips begin the reasons of tests that lack a machine.
var machineSkips = []string{"rig", "vm"}

// packages builds the packages, for the tests on the host and those in the
// machines.
func (r *report) packages(ctx context.Context, o *options) {
	start := time.Now()
	err := need(ctx, "make", "dpkg-deb", "lintian", "rpm", "cpio", "rpmlint", "mandoc")
	if err == nil {
		o.built, err = buildPackages(ctx, o.out)
	}
	if err != nil {
		r.cannot("the packages", packageSkip, err)
		return
	}
	note("built the packages in %.1fs", time.Since(start).Seconds())
}

// packagesForMachines sees to it that the machines have packages, where they
// have tests for them.
func (r *report) packagesForMachines(ctx context.Context, st *stage, o *options) {
	i := slices.IndexFunc(st.Binaries, func(b testBinary) bool { return b.Dir == packageTests })
	if i < 0 {
		return
	}
	if len(o.suites) > 0 && st.matches(ctx, st.Binaries[i], o.run) {
		if o.built != "" {
			return
		}
		var err error
		if o.built, err = buildPackages(ctx, o.out); err == nil {
			return
		}
		r.cannot("the packages in the machines", packageSkip, err)
	}
	st.Binaries = slices.Delete(st.Binaries, i, i+1)
}

// matches says whether a test binary has a test that run asks for.
func (st *stage) matches(ctx context.Context, b testBinary, run string) bool {
	top, _, _ := strings.Cut(run, "/")
	if top == "" {
		return true
	}
	out, err := exec.CommandContext(ctx, filepath.Join(st.Dir, b.Dir, "rig.test"), "-test.list="+top).Output()
	return err != nil || len(out) > 0
}

// buildPackages makes the packages as anybody would, a second time in other
// circumstances, and an older version for upgrades.
func buildPackages(ctx context.Context, out string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(out, "packages"))
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	for _, b := range []struct {
		name, shell string
		variables   []string
	}{
		{"first", `umask 022; exec "$@"`, nil},
		{"second", `umask 077; TZ=Pacific/Chatham LC_ALL=C; export TZ LC_ALL; exec "$@"`, nil},
		{"older", `exec "$@"`, []string{"VERSION=" + olderVersion, "ARCHS=" + runtime.GOARCH}},
	} {
		args := append([]string{"-c", b.shell, "sh", "make", "--no-print-directory", "package", "PACKAGES=" + filepath.Join(dir, b.name)}, b.variables...)
		cmd := exec.CommandContext(ctx, "sh", args...)
		for _, kv := range os.Environ() {
			if !strings.HasPrefix(kv, "MAKE") && !strings.HasPrefix(kv, "MFLAGS=") { // of the make that has started this
				cmd.Env = append(cmd.Env, kv)
			}
		}
		if err := runQuietly(cmd); err != nil {
			return "", fmt.Errorf("cannot build the packages: %w", err)
		}
	}
	return dir, nil
}

// companions are what tests need beside them in a machine. Those of the packages
// need what shows a manual and completes options, and once another packager;
// those of terminals one that a user could sit at, and the benchmark its peers.
func (s Suite) companions(tests string) []string {
	switch tests {
	case terminalTests:
		return []string{"tmux"}
	case benchTests:
		return []string{"crun", "runc", "bubblewrap", "conmon", "task-spooler"}
	}
	names := []string{"man-db", "bash-completion", "zsh", "fish"}
	if s.Name == "trixie" {
		names = append(names, "rpm")
	}
	return names
}

// fetch downloads the companions of tests, with what they depend on and the
// suite's root lacks: a machine has no network.
func (s Suite) fetch(ctx context.Context, tests string) (string, error) {
	dir := filepath.Join(stateDir(), "debs-"+s.Name)
	if tests != packageTests {
		dir += "-" + filepath.Base(tests)
	}
	stamp := filepath.Join(dir, ".fetched")
	lock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	root, err := os.Stat(filepath.Join(s.Root(), ".built"))
	if err != nil {
		return "", err
	}
	companions := s.companions(tests)
	key := fmt.Sprintf("%s %d %s\n", s.Key(), root.ModTime().Unix(), strings.Join(companions, " "))
	if have, err := os.ReadFile(stamp); err == nil && string(have) == key {
		return dir, nil
	}
	if err := errors.Join(removeTree(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	note("fetching what %s need in %s", tests, s.Name)
	cmd := contained(ctx, append([]string{"sh", "-c", fetchScript, "sh", s.Root(), dir}, companions...)...)
	if err := runQuietly(cmd); err != nil {
		return "", fmt.Errorf("cannot fetch %s of %s: %w", strings.Join(companions, ", "), s.Name, err)
	}
	return dir, os.WriteFile(stamp, []byte(key), 0o644)
}

// fetchScript lets the suite's own apt download packages, in a layer over its
// root that is gone afterwards.
const fetchScript = `set -e
root=$1 dir=$2; shift 2
mount -t tmpfs rig /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir="$root",upperdir=/mnt/upper,workdir=/mnt/work rig /mnt/root
mount -t proc proc /mnt/root/proc
mount --bind /dev /mnt/root/dev
cat /etc/resolv.conf > /mnt/root/etc/resolv.conf
export DEBIAN_FRONTEND=noninteractive
get() { chroot /mnt/root apt-get -qq -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false "$@"; }
get update
get install -y --no-install-recommends --download-only "$@"
cp /mnt/root/var/cache/apt/archives/*.deb "$dir"
`

// installCompanions installs in a machine what tests need there.
func installCompanions(ctx context.Context, m *Machine, tests string) error {
	dir, err := m.Suite.fetch(ctx, tests)
	if err != nil {
		return err
	}
	in := inside + "/companions-" + filepath.Base(tests)
	if err := os.CopyFS(m.path(in), os.DirFS(dir)); err != nil {
		return fmt.Errorf("cannot copy packages into %s: %w", m.Name, err)
	}
	var out bytes.Buffer
	code, err := m.Run(ctx, Command{Argv: []string{"sh", "-c", `exec dpkg -i "$0"/*.deb`, in}, Stdout: &out, Stderr: &out})
	if err == nil && code != 0 {
		err = fmt.Errorf("cannot install packages in %s: dpkg ended with %d\n%s", m.Name, code, indent(lastLines(out.String(), 20)))
	}
	return err
}

// copyPackages brings packages and companions into a machine.
func copyPackages(ctx context.Context, m *Machine, built string) error {
	companions, err := m.Suite.fetch(ctx, packageTests)
	if err != nil {
		return err
	}
	if err := os.CopyFS(m.path(inside+"/companions"), os.DirFS(companions)); err != nil {
		return fmt.Errorf("cannot copy packages into %s: %w", m.Name, err)
	}
	for _, name := range []string{"first", "older"} {
		to := m.path(inside + "/packages/" + name)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		for _, arch := range packageArchs[runtime.GOARCH] {
			files, err := filepath.Glob(filepath.Join(built, name, "*"+arch))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("cannot copy packages into %s: none of %s is of this machine's kind", m.Name, name)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err == nil {
					err = os.WriteFile(filepath.Join(to, filepath.Base(f)), b, 0o644)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// packageArchs are how the names of packages end for an architecture.
var packageArchs = map[string][]string{
	"amd64": {"_amd64.deb", ".x86_64.rpm"},
	"arm64": {"_arm64.deb", ".aarch64.rpm"},
}
