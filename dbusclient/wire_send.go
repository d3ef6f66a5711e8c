package dbusclient

import (
	"cmp"
	"context"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// call puts a method call into the buffer of what is to be sent and returns
// where its reply will come; nil wants none. Where too many are awaited it waits
// for one of them. The error is a message that cannot be encoded, the connection's
// end, or that of ctx.
func (w *wire) call(ctx context.Context, dest string, path dbus.ObjectPath, method string, reply chan<- *dbus.Message, args ...any) (uint32, error) {
	i := strings.LastIndexByte(method, '.')
	m := dbus.Message{
		Kind: dbus.Call, Flags: dbus.NoAutoStart, Destination: dest, Path: path,
		Interface: method[:i], Member: method[i+1:], Body: args,
	}
	if reply == nil {
		m.Flags |= dbus.NoReplyExpected
	} else if err := w.place(ctx); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.out)
	m.Serial = w.serial + 1
	out, fds, err := m.Append(w.out)
	if err = cmp.Or(w.err, err); err != nil {
		if reply != nil {
			<-w.places
		}
		return 0, err
	}
	w.serial++
	if reply != nil {
		w.waits[w.serial] = reply
	}
	w.out = out
	if len(fds) == 0 {
		return w.serial, nil
	}
	// Descriptors travel with a byte of their own message and no other's.
	own := out[before:]
	w.out = out[:before]
	if err := w.flushLocked(); err != nil {
		return 0, err
	}
	w.limitWrite()
	n, _, err := w.conn.WriteMsgUnix(own, unix.UnixRights(fds...), nil)
	runtime.KeepAlive(args)
	if err == nil && n < len(own) {
		_, err = w.conn.Write(own[n:])
	}
	switch {
	case err == nil:
	case n == 0: // the kernel did not take the descriptors
		if reply != nil {
			delete(w.waits, w.serial)
			<-w.places
		}
	default:
		w.breakOff(err)
	}
	return w.serial, err
}

// place takes the place of a reply, which the reply gives back. Each has one of its
// own, whoever awaits it.
func (w *wire) place(ctx context.Context) error {
	select {
	case w.places <- struct{}{}:
		return nil
	default:
	}
	if err := w.flush(); err != nil {
		return err
	}
	select {
	case w.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.done:
		return w.ended()
	}
}

// limitWrite bounds the next write: a peer that does not read holds it up, and with
// it whoever else uses the connection.
func (w *wire) limitWrite() {
	_ = w.conn.SetWriteDeadline(time.Now().Add(callTimeout)) // a closed one says so at the write
}

// breakOff gives up a connection to which a part of a message went.
func (w *wire) breakOff(err error) {
	if w.broken == nil {
		w.broken = err
	}
	_ = w.conn.Close()
}

// flush sends what is to be sent.
func (w *wire) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flushLocked()
}

func (w *wire) flushLocked() error {
	if w.err != nil || len(w.out) == 0 {
		return w.err
	}
	w.limitWrite()
	_, err := w.conn.Write(w.out)
	w.out = w.out[:0]
	if err != nil {
		w.breakOff(err)
	}
	return err
}

// came takes a reply out of those that are awaited, and returns where it is to go;
// nil when nobody wants it.
func (w *wire) came(serial uint32) chan<- *dbus.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	reply, awaited := w.waits[serial]
	if awaited {
		delete(w.waits, serial)
		<-w.places
	}
	return reply
}

// forget gives up on a reply, which keeps its place: the bus counts it until it
// comes.
func (w *wire) forget(serial uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, awaited := w.waits[serial]; awaited {
		w.waits[serial] = nil
	}
}
