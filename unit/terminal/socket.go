package terminal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SocketName is the name of the socket in a job's directory at which the holder
// of its terminal is reached.
const SocketName = "terminal"

// What is said at the socket are messages (SOCK_SEQPACKET): a letter and what it
// is about. The first of each side is a hello and its answer.
const (
	sayHello  = 'h' // hello
	sayAnswer = 'a' // answer
	sayKeys   = 'k' // the keys
	sayResize = 'r' // rows and columns, each of two bytes, the high one first
	sayOutput = 'o' // what was printed
)

// protocol is the version of what is said.
const protocol = 1

// maxMessage bounds a message without its letter.
const maxMessage = 16 << 10

// hello says who comes.
type hello struct {
	Protocol int  `json:"protocol"`
	Write    bool `json:"write"`
	Take     bool `json:"take"`
	Size     Size `json:"size"`
}

// answer says what he may.
type answer struct {
	Protocol int `json:"protocol"`
	// Refused says why he may nothing; empty when he may.
	Refused string `json:"refused,omitempty"`
	Writes  bool   `json:"writes"`
}

// listen makes the socket in a directory, for its owner alone.
func listen(dir *os.File) (*os.File, error) {
	var fd int
	err := control(dir, func(d int) (err error) {
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		// Its mode is the file's from the beginning (unix_bind_bsd()), and its path
		// of any length.
		if err = unix.Fchmod(fd, 0o600); err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: below(d) + "/" + SocketName})
		}
		if err == nil {
			err = unix.Listen(fd, maxViewers)
		}
		if err != nil {
			unix.Close(fd)
			return os.NewSyscallError("bind", err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket in %s: %w", dir.Name(), err)
	}
	return os.NewFile(uintptr(fd), SocketName), nil
}

// below is the path of a descriptor's file.
func below(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// accept takes the next who comes; the error is os.ErrClosed once the socket was
// closed. One of another user is sent away.
func accept(socket *os.File) (*os.File, error) {
	conn, err := socket.SyscallConn()
	if err != nil {
		return nil, os.ErrClosed
	}
	for {
		fd := -1
		var ferr error
		err := conn.Read(func(s uintptr) bool {
			fd, _, ferr = unix.Accept4(int(s), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(ferr, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return nil, os.ErrClosed
		case errors.Is(ferr, unix.EINTR), errors.Is(ferr, unix.ECONNABORTED):
			continue
		case ferr != nil:
			return nil, os.NewSyscallError("accept", ferr)
		}
		if err := ours(fd); err != nil {
			unix.Close(fd)
			continue
		}
		return os.NewFile(uintptr(fd), SocketName), nil
	}
}

// ours fails where another user is at the other end of a socket.
func ours(fd int) error {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return os.NewSyscallError("SO_PEERCRED", err)
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("uid %d is at its other end, not %d", peer.Uid, os.Geteuid())
	}
	return nil
}

// dial connects to the socket in a directory. It follows no link.
func dial(dir *os.File) (*os.File, error) {
	var fd int
	err := control(dir, func(d int) error {
		at, err := unix.Openat(d, SocketName, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("openat", err)
		}
		defer unix.Close(at)
		var st unix.Stat_t
		if err := unix.Fstat(at, &st); err != nil {
			return os.NewSyscallError("fstat", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
			return fmt.Errorf("it is no socket for uid %d alone, but has mode %o and uid %d", os.Geteuid(), st.Mode, st.Uid)
		}
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		err = os.NewSyscallError("connect", unix.Connect(fd, &unix.SockaddrUnix{Name: below(at)}))
		if err == nil {
			err = ours(fd)
		}
		if err != nil {
			unix.Close(fd)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), SocketName), nil
}

// say sends one message of no more than maxMessage.
func say(to *os.File, letter byte, text []byte) error {
	_, err := to.Write(append([]byte{letter}, text...))
	return err
}

func sayJSON(to *os.File, letter byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return say(to, letter, b)
}

// hear reads one message into b, which has room for maxMessage and a letter.
// io.EOF is the end of the other side.
func hear(from *os.File, b []byte) (letter byte, text []byte, err error) {
	n, err := from.Read(b)
	if errors.Is(err, unix.ECONNRESET) {
		n, err = from.Read(b) // who went had not heard all, but may have said something
	}
	if err != nil {
		return 0, nil, err
	}
	return b[0], b[1:n], nil
}

// hearJSON reads a message of JSON.
func hearJSON(from *os.File, letter byte, v any) error {
	got, text, err := hear(from, make([]byte, 1+maxMessage))
	switch {
	case err != nil:
		return err
	case got != letter:
		return fmt.Errorf("%q was said in the place of %q", got, letter)
	}
	return json.Unmarshal(text, v)
}

func (s Size) message() []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, s.Rows), s.Cols)
}

// parseSize reads a size as message writes it; false for what is none.
func parseSize(text []byte) (Size, bool) {
	if len(text) != 4 {
		return Size{}, false
	}
	return Size{binary.BigEndian.Uint16(text), binary.BigEndian.Uint16(text[2:])}, true
}
