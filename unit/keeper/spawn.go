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
// socket, of which the other is the process's ControlFD, and its number. It may
// outlive this process; while that is there it leaves no zombie.
func Spawn(program string, argv []string, stdio [3]*os.File) (control *net.UnixConn, pid int, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot make the keeper's socket: %w", err)
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
		return nil, 0, fmt.Errorf("cannot make the keeper's socket: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = ours.Close()
		return nil, 0, fmt.Errorf("cannot start the keeper: %w", err)
	}
	defer null.Close()
	files := make([]*os.File, 0, ControlFD+1)
	for _, f := range stdio {
		if f == nil {
			f = null
		}
		files = append(files, f)
	}
	var p *os.Process
	err = own.add(func() (int, error) {
		p, err = os.StartProcess(program, argv, &os.ProcAttr{
			Dir: "/", Files: append(files, theirs), Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			return 0, err
		}
		return p.Pid, nil
	})
	if err != nil {
		_ = ours.Close()
		return nil, 0, fmt.Errorf("cannot start the keeper: %w", err)
	}
	go func() { _ = own.reap(p.Pid, func() error { _, err := p.Wait(); return err }) }()
	return ours, p.Pid, nil
}
