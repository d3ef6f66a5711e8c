package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

type (
	// bundle is config.json of the OCI runtime specification, as far as `true`
	// needs it.
	bundle struct {
		Version string        `json:"ociVersion"`
		Process bundleProcess `json:"process"`
		Root    bundleRoot    `json:"root"`
		Mounts  []bundleMount `json:"mounts"`
		Linux   bundleLinux   `json:"linux"`
	}
	bundleProcess struct {
		User struct {
			UID int `json:"uid"`
			GID int `json:"gid"`
		} `json:"user"`
		Args []string `json:"args"`
		Env  []string `json:"env"`
		Cwd  string   `json:"cwd"`
	}
	bundleRoot struct {
		Path string `json:"path"`
	}
	bundleMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	bundleLinux struct {
		Namespaces  []bundleNamespace `json:"namespaces"`
		UIDMappings []bundleMapping   `json:"uidMappings,omitempty"`
		GIDMappings []bundleMapping   `json:"gidMappings,omitempty"`
	}
	bundleNamespace struct {
		Type string `json:"type"`
	}
	bundleMapping struct {
		Container int `json:"containerID"`
		Host      int `json:"hostID"`
		Size      int `json:"size"`
	}
)

// newBundle is a container that runs a command, on the programs and libraries
// of the machine itself. What is mounted is no more than it takes. Who is not
// root is it in a user namespace.
func newBundle(argv []string, uid, gid int, binds []string) *bundle {
	b := &bundle{Version: "1.0.2"}
	b.Process = bundleProcess{Args: argv, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Cwd: "/"}
	b.Root.Path = "rootfs"
	b.Mounts = []bundleMount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}}, // the bundle may be where no device works
	}
	for _, dir := range binds {
		b.Mounts = append(b.Mounts, bundleMount{Destination: dir, Type: "bind", Source: dir, Options: []string{"rbind", "ro"}})
	}
	b.Linux.Namespaces = []bundleNamespace{{"pid"}, {"mount"}, {"ipc"}, {"uts"}}
	if uid != 0 {
		b.Linux.Namespaces = append(b.Linux.Namespaces, bundleNamespace{"user"})
		b.Linux.UIDMappings = []bundleMapping{{Host: uid, Size: 1}}
		b.Linux.GIDMappings = []bundleMapping{{Host: gid, Size: 1}}
	}
	return b
}

// writeBundle makes the bundle's directory, with the places to mount on.
func writeBundle(dir string, argv ...string) error {
	var binds []string
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib64"} {
		at := filepath.Join(dir, "rootfs", name)
		if link, err := os.Readlink("/" + name); err == nil {
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(link, at)); err != nil {
				return err
			}
			continue
		}
		if _, err := os.Stat("/" + name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		binds = append(binds, "/"+name)
	}
	config, err := json.MarshalIndent(newBundle(argv, os.Geteuid(), os.Getegid(), binds), "", "\t")
	if err != nil {
		return fmt.Errorf("cannot write the bundle: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
}
