package dbusclient

import (
	"context"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
)

// Trigger is a transient timer, path or socket as the manager is to make it. It
// starts the service of the same name.
type Trigger struct {
	// Unit is the full unit name, with the suffix of its type.
	Unit        string
	Description string
	// JobMode is the mode of the start job; empty is fail.
	JobMode string
	// Properties are the trigger's own.
	Properties []property.Property
	// Service is made together with it, and not started; nil leaves the service
	// to be there already.
	Service *Service
}

// StartTrigger asks the manager for the trigger, and with it for the service
// that it starts. Nothing holds either loaded. The errors are those of
// StartService.
func (c *Client) StartTrigger(ctx context.Context, t Trigger) (*Unit, error) {
	u := c.unit(t.Unit)
	c.holds.Lock()
	l, _ := c.follow(u)
	c.holds.Unlock()
	p := []property.Property{
		{Name: "Description", Value: dbus.MakeVariant(t.Description)},
		{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
	}
	auxes := []aux{}
	if t.Service != nil {
		own, _ := t.Service.properties(l, false)
		auxes = append(auxes, aux{t.Service.Unit, own})
	}
	return c.start(ctx, l, u, request{mode: t.JobMode, properties: append(p, t.Properties...), auxes: auxes})
}
