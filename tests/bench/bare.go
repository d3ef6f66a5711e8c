package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	managerName = "org.freedesktop.systemd1"
	managerPath = "/org/freedesktop/systemd1"
)

type (
	property struct {
		Name  string
		Value dbus.Variant
	}
	auxUnit struct {
		Name       string
		Properties []property
	}
	execStart struct {
		Path   string
		Argv   []string
		Ignore bool
	}
)

// bare is a program that does nothing but the calls: StartTransientUnit, and the
// signal that tells of each unit that was removed. It proves nothing and keeps
// no record.
type bare struct {
	conn    *dbus.Conn
	signals chan *dbus.Signal
	calls   chan *dbus.Call
	prefix  string
	next    int
}

func bareConnect(ctx context.Context, manager string) (_ *bare, err error) {
	b := &bare{signals: make(chan *dbus.Signal, 1<<16), calls: make(chan *dbus.Call, 1<<10), prefix: fmt.Sprintf("bench-bare-%d-%d-", os.Getpid(), time.Now().UnixNano())}
	connect := dbus.ConnectSessionBus
	if manager == "--system" {
		connect = dbus.ConnectSystemBus
	}
	if b.conn, err = connect(dbus.WithContext(ctx)); err != nil {
		return nil, err
	}
	if err = b.object().CallWithContext(ctx, managerName+".Manager.Subscribe", 0).Err; err == nil {
		err = b.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(managerName+".Manager"), dbus.WithMatchMember("UnitRemoved"))
	}
	if err != nil {
		b.conn.Close()
		return nil, err
	}
	b.conn.Signal(b.signals)
	return b, nil
}

func (b *bare) object() dbus.BusObject { return b.conn.Object(managerName, managerPath) }

// start sends the call; its reply comes on b.calls.
func (b *bare) start(ctx context.Context, properties []property) {
	b.next++
	b.object().GoWithContext(ctx, managerName+".Manager.StartTransientUnit", 0, b.calls, fmt.Sprint(b.prefix, b.next, ".service"), "fail", properties, []auxUnit{})
}

// ended says whether a signal tells of the end of a unit of this program's.
func (b *bare) ended(sig *dbus.Signal) bool {
	if len(sig.Body) == 0 {
		return false
	}
	name, ok := sig.Body[0].(string)
	return ok && strings.HasPrefix(name, b.prefix)
}

// await returns when one more unit has been removed.
func (b *bare) await(ctx context.Context) error {
	for {
		select {
		case c := <-b.calls:
			if c.Err != nil {
				return c.Err
			}
		case sig := <-b.signals:
			if b.ended(sig) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bareService is the least that a service of a command takes.
func bareService(path string, args ...string) []property {
	return []property{
		{"Type", dbus.MakeVariant("exec")},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
		{"ExecStart", dbus.MakeVariant([]execStart{{path, append([]string{path}, args...), false}})},
	}
}

// bareOnce is the whole of the bare program.
func bareOnce(manager string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := bareConnect(ctx, manager)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	b.start(ctx, bareService("/bin/true"))
	return b.await(ctx)
}
