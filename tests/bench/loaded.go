package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// loadedSizes are how many units that have ended are still loaded.
var loadedSizes = []int{0, 1000, 4000}

// unitCalls is how many calls about such units are in flight.
const unitCalls = 32

// loaded measures what one more job costs while a manager has many units, and
// then the ugly case, for which it has them already.
func (b *bench) loaded() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	u := &leftUnits{manager: b.manager}
	defer func() { err = errors.Join(err, u.remove(context.WithoutCancel(ctx))) }()
	c := &crowded{b: b, what: "loaded units", sizes: loadedSizes}
	for _, size := range loadedSizes {
		if err := u.grow(ctx, size); err != nil {
			return err
		}
		if err := c.measure(size); err != nil {
			return err
		}
	}
	c.report()
	return b.ugly(loadedSizes[len(loadedSizes)-1])
}

// leftUnits are services whose process has ended, and which stay.
type leftUnits struct {
	manager string
	prefix  string
	n       int
}

func (u *leftUnits) name(i int) string { return fmt.Sprint(u.prefix, i, ".service") }

// grow makes more of them. The connection is closed afterwards: as long as
// somebody subscribes, the manager tells every client more.
func (u *leftUnits) grow(ctx context.Context, size int) error {
	b, err := bareConnect(ctx, u.manager)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	if u.prefix == "" {
		u.prefix = b.prefix
	}
	b.prefix, b.next = u.prefix, u.n
	properties := append(bareService("/bin/true"), property{"RemainAfterExit", dbus.MakeVariant(true)})
	for replies := u.n; replies < size; {
		for b.next < size && b.next-replies < unitCalls {
			b.start(ctx, properties)
			u.n = b.next
		}
		select {
		case c := <-b.calls:
			if replies++; c.Err != nil {
				return c.Err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return b.quiet(ctx)
}

// quiet returns when the manager has no more jobs to do.
func (b *bare) quiet(ctx context.Context) error {
	for {
		v, err := b.object().GetProperty(managerName + ".Manager.NJobs")
		if err != nil {
			return err
		}
		if n, ok := v.Value().(uint32); ok && n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// remove stops them all, and waits until they are gone.
func (u *leftUnits) remove(ctx context.Context) error {
	if u.n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := bareConnect(ctx, u.manager)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	var failed error
	for sent, replies := 0, 0; replies < u.n; {
		for sent < u.n && sent-replies < unitCalls {
			sent++
			b.object().GoWithContext(ctx, managerName+".Manager.StopUnit", 0, b.calls, u.name(sent), "fail")
		}
		select {
		case c := <-b.calls:
			replies++
			failed = errors.Join(failed, c.Err)
		case <-ctx.Done():
			return errors.Join(failed, ctx.Err())
		}
	}
	return errors.Join(failed, b.quiet(ctx))
}
