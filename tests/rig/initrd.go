package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// vmLeaves names what an emulated machine does without: every megabyte is
// unpacked at its pace.
func vmLeaves(name string) bool {
	for _, dir := range []string{
		"boot", "dev", "proc", "sys", "run", "tmp", "media", "mnt", "srv",
		"var/cache", "var/lib/apt", "var/lib/dpkg", "var/log", "usr/include", "usr/games", "usr/src",
		"usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/zoneinfo", "usr/share/i18n",
		"usr/share/perl", "usr/share/perl5", "usr/share/bash-completion", "usr/share/zsh", "usr/share/keyrings",
		"usr/share/common-licenses", "usr/share/lintian", "usr/share/bug", "usr/share/debconf",
		"usr/lib/apt", "usr/lib/dpkg", "usr/lib/udev", "lib/udev", "usr/lib/modules", "usr/lib/systemd/catalog", "lib/systemd/catalog",
		"usr/lib/systemd/boot", "usr/lib/git-core", "usr/lib/locale/C.utf8",
	} {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return name != dir || !keptEmpty(dir)
		}
	}
	base := path.Base(name)
	switch path.Dir(name) {
	case "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu":
		for _, p := range []string{"perl", "gconv", "libperl", "libapt-", "libstdc++", "libgcrypt-static", "libdb-", "libgnutls", "libhogweed", "libunistring"} {
			if strings.HasPrefix(base, p) {
				return true
			}
		}
	case "usr/bin", "bin":
		return strings.HasPrefix(base, "perl") || strings.HasPrefix(base, "apt") || strings.HasPrefix(base, "dpkg") || strings.HasPrefix(base, "deb")
	}
	return false
}

func keptEmpty(dir string) bool {
	switch dir {
	case "dev", "proc", "sys", "run", "tmp", "mnt", "var/log", "var/cache":
		return true
	}
	return false
}

// baseImage returns the archive of the suite's root, made once for each build
// of it. It is not compressed: copying is cheaper in there than unpacking.
func baseImage(ctx context.Context, s Suite) (string, error) {
	img := filepath.Join(stateDir(), "vm-"+s.Name+".cpio")
	held, err := lockFile(ctx, img+".lock")
	if err != nil {
		return "", err
	}
	defer held.Close()
	root, err := os.Stat(filepath.Join(s.Root(), ".built"))
	if err != nil {
		return "", fmt.Errorf("cannot make the image of %s: %w", s.Name, err)
	}
	if have, err := os.Stat(img); err == nil && have.ModTime().After(root.ModTime()) {
		return img, nil
	}
	f, err := os.Create(img + ".new")
	if err != nil {
		return "", fmt.Errorf("cannot make the image of %s: %w", s.Name, err)
	}
	defer f.Close()
	a := newArchive(f)
	if err := a.tree(s.Root(), ".", vmLeaves); err != nil {
		return "", fmt.Errorf("cannot make the image of %s: %w", s.Name, err)
	}
	if err := a.end(); err != nil {
		return "", fmt.Errorf("cannot make the image of %s: %w", s.Name, err)
	}
	return img, os.Rename(img+".new", img)
}

// copyTo appends the file at path.
func copyTo(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
