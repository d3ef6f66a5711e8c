package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const bootVerb = "_boot"

// The descriptors that the guard gives to the first process of a machine.
const (
	bootGo   = 3 // a byte when the machine is recorded; end of file when the guard is dead
	bootDoor = 4 // cgroup.procs of the machine's cgroup
)

// boot is the first process of a machine's namespaces. It makes the machine's
// file systems and becomes systemd.
func boot(args []string) error {
	lower, name := args[0], args[1]
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot tie the machine to its guard: %w", err)
	}
	if n, err := os.NewFile(bootGo, "go").Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("cannot boot %s: its guard is gone: %w", name, err)
	}
	// A manager in the host's own cgroup would move every process of the host
	// into its init.scope: first a cgroup and a cgroup namespace of its own.
	if _, err := os.NewFile(bootDoor, "cgroup.procs").WriteString("0"); err != nil {
		return fmt.Errorf("cannot join the machine's cgroup: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cannot make a cgroup namespace: %w", err)
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	unix.Umask(0o022)
	root, err := overlay(lower, mountPoint(name))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "etc/hostname"), []byte(name+"\n"), 0o644); err != nil {
		return fmt.Errorf("cannot set the host name: %w", err)
	}
	if err := furnish(root); err != nil {
		return err
	}
	if err := pivot(root); err != nil {
		return err
	}
	env := []string{"container=rig", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	err = syscall.Exec("/lib/systemd/systemd", []string{"/lib/systemd/systemd", "--system", "--log-target=journal", "--show-status=0"}, env)
	return fmt.Errorf("cannot execute systemd: %w", err)
}

// overlay mounts a throwaway layer over the pristine root. It lives in memory
// and in this mount namespace only, and so ends with the machine.
func overlay(lower, at string) (string, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("cannot make the mounts private: %w", err)
	}
	if err := unix.Mount("rig", at, "tmpfs", 0, "mode=755"); err != nil {
		return "", fmt.Errorf("cannot mount the machine's layer: %w", err)
	}
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(at, d), 0o755); err != nil {
			return "", err
		}
	}
	// Relative paths, so that a comma or a colon in the state directory's name
	// means nothing to the option parser.
	if err := os.Chdir(at); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(at, lower)
	if err != nil {
		return "", err
	}
	if err := unix.Mount("rig", "root", "overlay", 0, "lowerdir="+rel+",upperdir=upper,workdir=work"); err != nil {
		return "", fmt.Errorf("cannot mount an overlay on %s: %w", lower, err)
	}
	return filepath.Join(at, "root"), nil
}

// furnish mounts what systemd expects of the one who starts it in a container.
func furnish(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	for _, m := range []struct {
		kind, at, options string
		flags             uintptr
	}{
		{"proc", "proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"tmpfs", "run", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "tmp", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
		{"sysfs", "sys", "", unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"cgroup2", "sys/fs/cgroup", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"tmpfs", "dev", "mode=755", unix.MS_NOSUID},
	} {
		if err := unix.Mount(m.kind, at(m.at), m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("cannot mount %s on /%s: %w", m.kind, m.at, err)
		}
	}
	if err := devices(at("dev")); err != nil {
		return err
	}
	// Nothing inside may change the host; only the pid of the next process is
	// the machine's own.
	for _, p := range []string{"proc/sys", "proc/sysrq-trigger"} {
		if _, err := os.Stat(at(p)); errors.Is(err, os.ErrNotExist) {
			continue // a kernel without it
		}
		if err := bind(at(p), at(p), unix.MS_RDONLY); err != nil {
			return err
		}
	}
	id := at("run/boot-id")
	if err := os.WriteFile(id, []byte(uuid()+"\n"), 0o444); err != nil {
		return err
	}
	return bind(id, at("proc/sys/kernel/random/boot_id"), unix.MS_RDONLY)
}

func devices(dev string) error {
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty", "fuse"} {
		var host unix.Stat_t
		if err := unix.Stat("/dev/"+d, &host); err != nil {
			continue
		}
		// Nodes of its own: a manager gives what it takes for a terminal another
		// owner and mode.
		node := filepath.Join(dev, d)
		err := unix.Mknod(node, unix.S_IFCHR|0o666, int(host.Rdev))
		if err == nil {
			err = os.Chmod(node, 0o666)
		}
		if err != nil {
			return fmt.Errorf("cannot make %s: %w", node, err)
		}
	}
	for _, d := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, d), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"); err != nil {
		return fmt.Errorf("cannot mount devpts: %w", err)
	}
	if err := unix.Mount("tmpfs", filepath.Join(dev, "shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("cannot mount /dev/shm: %w", err)
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd",
		"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

func bind(from, to string, flags uintptr) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot bind %s: %w", from, err)
	}
	if flags == 0 {
		return nil
	}
	if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		return fmt.Errorf("cannot bind %s: %w", from, err)
	}
	return nil
}

// pivot makes root the root and lets go of the host's mounts.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot pivot to the machine's root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot let go of the host's root: %w", err)
	}
	return os.Chdir("/")
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
