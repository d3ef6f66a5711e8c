package keeper

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ControlFD is the descriptor at which a spawned keeper finds its socket.
const ControlFD = 3

// Spawn starts program with arguments as a process that stays when this one
// goes: in a session of its own, with "/" as its directory and stdio as its
// standard streams, where nil is /dev/null. It returns our end of a stream
// socket, of which the other is the process's ControlFD, and the process,
// which is a child that somebody has to wait for.
func Spawn(program string, argv []string, stdio [3]*os.File) (*net.UnixConn, *os.Process, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make the keeper's socket: %w", err)
	}
	end, theirs := os.NewFile(uintptr(ends[0]), "keeper"), os.NewFile(uintptr(ends[1]), "keeper")
	defer theirs.Close()
	conn, err := net.FileConn(end) // of which deadlines hold
	end.Close()
	ours, ok := conn.(*net.UnixConn)
	if err == nil && !ok {
		err = fmt.Errorf("it is a %T", conn)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make the keeper's socket: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = ours.Close()
		return nil, nil, fmt.Errorf("cannot start the keeper: %w", err)
	}
	defer null.Close()
	files := make([]*os.File, 0, ControlFD+1)
	for _, f := range stdio {
		if f == nil {
			f = null
		}
		files = append(files, f)
	}
	p, err := os.StartProcess(program, argv, &os.ProcAttr{
		Dir: "/", Files: append(files, theirs), Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = ours.Close()
		return nil, nil, fmt.Errorf("cannot start the keeper: %w", err)
	}
	return ours, p, nil
}
