package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// archive writes the "newc" cpio format, which the kernel unpacks into the root
// of an emulated machine. Several may follow one another.
type archive struct {
	w    *bufio.Writer
	ino  int
	size int64
}

func newArchive(w io.Writer) *archive { return &archive{w: bufio.NewWriterSize(w, 1<<20)} }

// entry is one name in an archive.
type entry struct {
	name     string // relative to the root
	mode     uint32 // type and permission bits
	uid, gid uint32
	mtime    int64
	rdev     uint64
	size     int64
}

func (a *archive) header(e entry) error {
	a.ino++
	n, err := fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.ino, e.mode, e.uid, e.gid, 1, uint32(e.mtime), e.size, 0, 0,
		unix.Major(e.rdev), unix.Minor(e.rdev), len(e.name)+1, 0, e.name)
	a.size += int64(n)
	if err != nil {
		return err
	}
	return a.pad()
}

// pad fills up to a multiple of four bytes.
func (a *archive) pad() error {
	n := int(-a.size & 3)
	a.size += int64(n)
	_, err := a.w.Write([]byte{0, 0, 0}[:n])
	return err
}

func (a *archive) body(r io.Reader, size int64) error {
	n, err := io.CopyN(a.w, r, size)
	a.size += n
	if err != nil {
		return err
	}
	return a.pad()
}

// dir adds a directory of root's.
func (a *archive) dir(name string, perm uint32) error {
	return a.header(entry{name: name, mode: unix.S_IFDIR | perm})
}

// link adds a symbolic link of root's.
func (a *archive) link(name, target string) error {
	if err := a.header(entry{name: name, mode: unix.S_IFLNK | 0o777, size: int64(len(target))}); err != nil {
		return err
	}
	n, err := a.w.WriteString(target)
	a.size += int64(n)
	if err != nil {
		return err
	}
	return a.pad()
}

// text adds a small file of root's.
func (a *archive) text(name string, perm uint32, content string) error {
	if err := a.header(entry{name: name, mode: unix.S_IFREG | perm, size: int64(len(content))}); err != nil {
		return err
	}
	n, err := a.w.WriteString(content)
	a.size += int64(n)
	if err != nil {
		return err
	}
	return a.pad()
}

// tree adds the directory at path, or the file there, as name. What skip names
// stays out, with all below it.
func (a *archive) tree(path, name string, skip func(name string) bool) error {
	return filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, p)
		if err != nil {
			return err
		}
		in := filepath.Join(name, rel)
		if skip != nil && skip(in) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		return a.file(p, in)
	})
}

// file adds what is at path with its owner, mode and time.
func (a *archive) file(path, name string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	e := entry{name: name, mode: st.Mode, uid: st.Uid, gid: st.Gid, mtime: info.ModTime().Unix(), rdev: st.Rdev}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		e.size = st.Size
		if err := a.header(e); err != nil {
			return err
		}
		return a.body(f, e.size)
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return a.link(name, target)
	case unix.S_IFSOCK:
		return nil
	default:
		return a.header(e)
	}
}

// end writes the trailer.
func (a *archive) end() error {
	if err := a.header(entry{name: "TRAILER!!!"}); err != nil {
		return err
	}
	return a.w.Flush()
}
