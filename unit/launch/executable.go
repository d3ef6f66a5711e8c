package launch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// defaultPath is where execvp(3) of glibc looks where no PATH is set.
const defaultPath = "/bin:/usr/bin"

// resolve finds the executable of a command as execvp(3) does, in the PATH of
// the job's environment and from its working directory. An empty PATH is that
// directory; one that is not set, /bin and /usr/bin. The error is a
// *unit.StartError with status 127 when there is none and 126 when there is
// one that cannot be executed; both name what was searched.
func resolve(command, dir string, env []string) (string, error) {
	fail := func(status int, format string, args ...any) error {
		return &unit.StartError{Unit: command, Status: status, Detail: fmt.Sprintf(format, args...)}
	}
	if command == "" {
		return "", &unit.StartError{Unit: `""`, Status: statusNotFound, Detail: "the command's name is empty", Hints: []string{"give the command after the options, without a word before it that is empty"}}
	}
	if strings.Contains(command, "/") {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if err := executable(path); err != nil {
			return "", fail(execStatus(err), "%v", err)
		}
		return path, nil
	}
	search, ok := lookup(env, "PATH")
	if !ok {
		search = defaultPath
	}
	var refused, broken error
	for _, d := range strings.Split(search, ":") {
		if d == "" {
			d = "."
		}
		path := filepath.Join(d, command)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		err := executable(path)
		if err == nil {
			return path, nil
		}
		switch _, absent := os.Stat(path); {
		case absent != nil: // or in a directory that may not be looked into, which says nothing
		case execStatus(err) == statusNoExec:
			refused = cmp.Or(refused, err)
		default: // it is there, and its interpreter is not
			broken = cmp.Or(broken, err)
		}
	}
	if err := cmp.Or(refused, broken); err != nil {
		return "", fail(execStatus(err), "%v", err)
	}
	return "", fail(statusNotFound, "not found in PATH=%s", search)
}

func lookup(env []string, name string) (value string, ok bool) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// executable reports why execve(2) of the file would fail, as far as that can
// be seen beforehand: nil, or an error that wraps the errno.
func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &os.PathError{Op: "execute", Path: path, Err: syscall.EISDIR}
	}
	if !info.Mode().IsRegular() {
		return &os.PathError{Op: "execute", Path: path, Err: syscall.EACCES}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "execute", Path: path, Err: err}
	}
	return format(path, 0)
}

// maxScripts is how many scripts may be each other's interpreters
// (fs/exec.c, exec_binprm).
const maxScripts = 5

// format looks at what the kernel looks at: a script's interpreter, or a
// program's loader. A file that may not be read is left to the kernel. depth
// is how many scripts led here.
func format(path string, depth int) error {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		// Only space and tab separate: "#!/bin/sh" with a carriage return
		// asks for a file of that name (fs/binfmt_script.c).
		line, _, _ := bytes.Cut(head[2:], []byte("\n"))
		name := bytes.TrimLeft(line, " \t")
		if end := bytes.IndexAny(name, " \t\x00"); end >= 0 {
			name = name[:end]
		}
		if len(name) == 0 {
			return &os.PathError{Op: "execute", Path: path, Err: syscall.ENOEXEC}
		}
		if depth == maxScripts {
			return &os.PathError{Op: "execute", Path: path, Err: syscall.ELOOP}
		}
		if err := interpreter(path, string(name)); err != nil {
			return err
		}
		if err := format(string(name), depth+1); err != nil {
			return fmt.Errorf("execute %s: its interpreter: %w", path, err)
		}
		return nil
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return loader(path, f)
	}
	// The kernel knows further formats (binfmt_misc); whoever gets here with
	// none of them is told ENOEXEC by it. Text without a #! line is the
	// common case, which execvp(3) would give to a shell and execve does not.
	if isText(head) {
		return &os.PathError{Op: "execute", Path: path, Err: syscall.ENOEXEC}
	}
	return nil
}

func isText(head []byte) bool {
	return bytes.IndexByte(head, 0) < 0
}

func interpreter(path, name string) error {
	var st unix.Stat_t
	err := unix.Stat(name, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = syscall.EACCES
	}
	if err == nil {
		err = unix.Faccessat(unix.AT_FDCWD, name, unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return fmt.Errorf("execute %s: its interpreter %q: %w", path, name, err)
	}
	return nil
}

// loader looks for the interpreter that an ELF program asks for (elf(5),
// PT_INTERP). It reads no more than the kernel does, since every start does
// it.
func loader(path string, f *os.File) error {
	h := make([]byte, 64)
	if _, err := f.ReadAt(h, 0); err != nil || h[4] != 2 || h[5] != 1 {
		return nil // not 64 bits, not little endian: for the kernel to judge
	}
	le := binary.LittleEndian
	offset, size, count := int64(le.Uint64(h[32:])), int64(le.Uint16(h[54:])), int64(le.Uint16(h[56:]))
	if size < 56 || count > 128 {
		return nil
	}
	table := make([]byte, size*count)
	if _, err := f.ReadAt(table, offset); err != nil {
		return &os.PathError{Op: "execute", Path: path, Err: syscall.ENOEXEC}
	}
	for i := range count {
		entry := table[i*size:]
		length := le.Uint64(entry[32:])
		if le.Uint32(entry) != ptInterp || length > 4096 {
			continue
		}
		name := make([]byte, length)
		if _, err := f.ReadAt(name, int64(le.Uint64(entry[8:]))); err != nil {
			return nil
		}
		return interpreter(path, string(bytes.TrimRight(name, "\x00")))
	}
	return nil
}

const ptInterp = 3
