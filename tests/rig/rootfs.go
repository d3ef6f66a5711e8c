package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// customize runs with the new root as $1: a user with a lingering manager, and
// nothing at boot that tests do not need. The masked units and generators cost
// boot time, most of it in the emulated machines, or fail in a namespace.
const customize = `set -e
chroot "$1" useradd -m -u 1000 -s /bin/bash tester
mkdir -p "$1/var/lib/systemd/linger" "$1/opt/unitward"
touch "$1/var/lib/systemd/linger/tester"
: > "$1/etc/machine-id"
ln -sf /sbin/init "$1/init"
mask() { d=$1; shift; mkdir -p "$d"; for f; do ln -sf /dev/null "$d/$f"; done; }
mask "$1/etc/systemd/system" \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
  console-getty.service getty.target getty@tty1.service serial-getty@ttyS0.service \
  systemd-hwdb-update.service systemd-udevd.service systemd-udev-trigger.service systemd-udev-settle.service \
  systemd-journal-catalog-update.service systemd-sysusers.service systemd-firstboot.service systemd-machine-id-commit.service systemd-update-done.service systemd-random-seed.service \
  systemd-boot-update.service systemd-boot-random-seed.service systemd-pcrphase.service systemd-pcrphase-sysinit.service \
  systemd-pcrlock-make-policy.service systemd-tpm2-setup.service systemd-tpm2-setup-early.service \
  systemd-pstore.service systemd-timesyncd.service systemd-networkd.service systemd-resolved.service \
  systemd-sysctl.service systemd-binfmt.service systemd-modules-load.service kmod-static-nodes.service \
  systemd-remount-fs.service systemd-network-generator.service ldconfig.service \
  modprobe@configfs.service modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service \
  modprobe@dm_mod.service modprobe@loop.service \
  dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount \
  sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount
mask "$1/etc/systemd/system-generators" \
  systemd-bless-boot-generator systemd-cryptsetup-generator systemd-debug-generator systemd-fstab-generator \
  systemd-getty-generator systemd-gpt-auto-generator systemd-hibernate-resume-generator systemd-integritysetup-generator \
  systemd-rc-local-generator systemd-run-generator systemd-ssh-generator systemd-system-update-generator \
  systemd-sysv-generator systemd-tpm2-generator systemd-veritysetup-generator systemd-factory-reset-generator
`

// sidLives is how long a root of sid is used before it is made anew.
const sidLives = 7 * 24 * time.Hour

// lockTakes bounds how long to wait for those who use a root that has to go.
const lockTakes = 10 * time.Minute

// Build makes the suite's root file system unless a good one is there. Machines
// that run on it hold its lock shared, so it is never replaced under them.
func Build(ctx context.Context, s Suite) error {
	if usable, stale := s.built(); usable && !stale {
		return nil
	}
	if err := need(ctx, "mmdebstrap"); err != nil {
		return err
	}
	if err := os.MkdirAll(stateDir(), 0o755); err != nil {
		return fmt.Errorf("cannot make the state directory: %w", err)
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	if lock == nil {
		return nil
	}
	defer lock.Close()
	if usable, stale := s.built(); usable && !stale { // by another driver, while this one waited
		return nil
	}
	start := time.Now()
	note("building the root file system of %s", s.Name)
	if err := s.bootstrap(ctx); err != nil {
		return fmt.Errorf("cannot build the root file system of %s: %w", s.Name, err)
	}
	note("built %s in %.1fs", s, time.Since(start).Seconds())
	return nil
}

// built says whether the root can be used, and whether it should be renewed all
// the same.
func (s Suite) built() (usable, stale bool) {
	stamp := filepath.Join(s.Root(), ".built")
	key, err := os.ReadFile(stamp)
	if err != nil || strings.TrimSpace(string(key)) != s.Key() {
		return false, false
	}
	st, err := os.Stat(stamp)
	return err == nil, err == nil && s.Name == "sid" && time.Since(st.ModTime()) > sidLives
}

// lock takes the root for building. It returns nil when a stale but usable root
// is in use: then that one serves a little longer.
func (s Suite) lock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(s.Root()+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the root file system of %s: %w", s.Name, err)
	}
	deadline := time.Now().Add(lockTakes)
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if usable, _ := s.built(); usable || !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			if usable {
				return nil, nil
			}
			return nil, fmt.Errorf("cannot lock the root file system of %s: %w", s.Name, err)
		}
		if time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("cannot replace the root file system of %s: machines run on it, or another driver builds it (see \"list\")", s.Name)
		}
		if !told {
			note("waiting for another user of the root file system of %s", s.Name)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			f.Close()
			return nil, err
		}
	}
}

func (s Suite) bootstrap(ctx context.Context) error {
	fresh := s.Root() + ".new"
	if err := removeTree(fresh); err != nil {
		return err
	}
	cmd := contained(ctx, "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase",
		`--aptopt=Acquire::Check-Valid-Until "false"`, `--aptopt=Acquire::Retries "3"`, "--dpkgopt=force-unsafe-io",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/info/*",
		"--include="+strings.Join(s.Packages(), ","), "--customize-hook="+customize, s.Name, fresh, mirror())
	if err := runQuietly(cmd); err != nil {
		return errors.Join(err, removeTree(fresh))
	}
	if err := os.WriteFile(filepath.Join(fresh, ".built"), []byte(s.Key()+"\n"), 0o644); err != nil {
		return err
	}
	old := s.Root() + ".old"
	if err := removeTree(old); err != nil {
		return err
	}
	if err := os.Rename(s.Root(), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, s.Root()); err != nil {
		return err
	}
	return removeTree(old)
}

// removeTree removes a root file system, and refuses one that still has
// something mounted in it: removing through a mount would empty what is there.
func removeTree(dir string) error {
	mounts, err := mountsUnder(dir)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("cannot remove %s: mounted there: %s", dir, strings.Join(mounts, ", "))
	}
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove %s: %w", dir, err)
	}
	return nil
}
