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
	// bareUnits is how many services the bare program starts.
	bareUnits = 500
)

type (
	property struct {
		Name  string
		Value dbus.Variant
	}
	execStart struct {
		Path   string
		Argv   []string
		Ignore bool
	}
)

// bareRate is how many services a second a program makes that does nothing else:
// 8 calls of StartTransientUnit in flight, and a signal that tells of the end of
// each job that was queued and of each unit that was removed.
func bareRate(manager string) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := bareConnect(ctx, manager)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	object := conn.Object(managerName, managerPath)
	if err := object.CallWithContext(ctx, managerName+".Manager.Subscribe", 0).Err; err != nil {
		return 0, err
	}
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(managerName+".Manager"), dbus.WithMatchMember("UnitRemoved")); err != nil {
		return 0, err
	}
	signals := make(chan *dbus.Signal, 4*bareUnits)
	conn.Signal(signals)
	calls := make(chan *dbus.Call, startsAtATime)
	prefix := fmt.Sprintf("bench-bare-%d-", os.Getpid())
	began := time.Now()
	next, under, removed := 0, 0, 0
	for removed < bareUnits {
		for ; next < bareUnits && under < startsAtATime; next++ {
			under++
			object.GoWithContext(ctx, managerName+".Manager.StartTransientUnit", 0, calls, prefix+fmt.Sprint(next)+".service", "fail", bareProperties, []struct {
				Name       string
				Properties []property
			}{})
		}
		select {
		case c := <-calls:
			if under--; c.Err != nil {
				return 0, c.Err
			}
		case sig := <-signals:
			if name, ok := sig.Body[0].(string); ok && strings.HasPrefix(name, prefix) {
				removed++
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return bareUnits / time.Since(began).Seconds(), nil
}

var bareProperties = []property{
	{"Type", dbus.MakeVariant("exec")},
	{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	{"ExecStart", dbus.MakeVariant([]execStart{{"/bin/true", []string{"true"}, false}})},
}

func bareConnect(ctx context.Context, manager string) (*dbus.Conn, error) {
	if manager == "--system" {
		return dbus.ConnectSystemBus(dbus.WithContext(ctx))
	}
	return dbus.ConnectSessionBus(dbus.WithContext(ctx))
}
