package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// hangup tells when nobody can read any more what is written to a pipe or
// socket, also while nothing is written.
type hangup struct {
	epoll *os.File
	raw   syscall.RawConn
}

// watchHangup watches out, whose own mode stays as it is. It fails for a
// regular file, which nobody hangs up.
func watchHangup(out *os.File) (*hangup, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	conn, err := out.SyscallConn()
	if err == nil {
		cerr := conn.Control(func(to uintptr) {
			// EPOLLERR and EPOLLHUP come unasked (epoll_ctl(2)).
			err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, int(to), &unix.EpollEvent{Fd: int32(to)})
		})
		if err == nil {
			err = cerr
		}
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	h := &hangup{epoll: os.NewFile(uintptr(fd), "epoll")}
	if h.raw, err = h.epoll.SyscallConn(); err != nil {
		h.epoll.Close()
		return nil, err
	}
	return h, nil
}

// wait returns true at the hangup, false after Close.
func (h *hangup) wait() bool {
	err := h.raw.Read(func(fd uintptr) bool {
		var e [1]unix.EpollEvent
		n, _ := unix.EpollWait(int(fd), e[:], 0)
		return n > 0
	})
	return err == nil
}

// Close ends a wait.
func (h *hangup) Close() { h.epoll.Close() }
