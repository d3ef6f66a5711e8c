package dbusclient

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// passage is a bridge to whatever answer does with its other side.
func passage(t *testing.T, answer func(net.Conn), said error) *Bridge {
	return &Bridge{Name: "a way there", Dial: func(context.Context) (Passage, error) {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		var conns [2]net.Conn
		for i, fd := range ends {
			f := os.NewFile(uintptr(fd), "end")
			if conns[i], err = net.FileConn(f); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		go func() { defer conns[1].Close(); answer(conns[1]) }()
		return Passage{Conn: conns[0].(*net.UnixConn), End: func() error { return said }}, nil
	}}
}

// No descriptor goes by a bridge, so none is negotiated.
func TestBridgeNegotiatesNothing(t *testing.T) {
	asked := make(chan string, 1)
	b := passage(t, func(c net.Conn) {
		buf := make([]byte, 4096)
		n, _ := c.Read(buf)
		asked <- string(buf[:n])
	}, errors.New("it ended by itself"))
	_, err := Dial(t.Context(), unit.ManagerSystem, Environment{UID: 1000, Getenv: func(string) string { return "" }, Remote: unit.Remote{Host: "far"}, Bridge: b})
	var none *unit.NoManagerError
	if !errors.As(err, &none) || none.Remote.Host != "far" || err.Error() != "cannot reach the system manager of host far: a way there: it ended by itself" {
		t.Errorf("Dial says %v", err)
	}
	if got := <-asked; !strings.HasPrefix(got, "\x00AUTH EXTERNAL "+hex.EncodeToString([]byte("1000"))+"\r\nBEGIN\r\n") {
		t.Errorf("it began with %.80q", got)
	}
}

// What is no bus is told, and one that says nothing ends with the context.
func TestBridgeToNothing(t *testing.T) {
	env := Environment{UID: 1000, Getenv: func(string) string { return "" }, Remote: unit.Remote{Machine: "box"}}
	env.Bridge = passage(t, func(c net.Conn) { c.Write([]byte("Welcome to far!\r\n")); c.Read(make([]byte, 1<<16)) }, nil)
	_, err := Dial(t.Context(), unit.ManagerSystem, env)
	if err == nil || !strings.Contains(err.Error(), "machine box") || !strings.Contains(err.Error(), "Welcome to far!") {
		t.Errorf("Dial says %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	env.Bridge = passage(t, func(c net.Conn) {
		c.Read(make([]byte, 1<<16))
		close(asked)
		c.Read(make([]byte, 1<<16))
	}, nil)
	go func() { <-asked; cancel() }()
	var none *unit.NoManagerError
	if _, err := Dial(ctx, unit.ManagerSystem, env); !errors.As(err, &none) {
		t.Errorf("Dial says %v", err)
	}
}

// A slice refers to the service whose end it keeps, and the service wants it.
func TestHold(t *testing.T) {
	s := Service{Unit: "job.service", Hold: HoldSlice("0a1b"), Environment: []string{"A=b"}}
	props, auxes := s.properties(&link{version: 257}, true)
	var wants, environment string
	for _, p := range props {
		switch p.Name {
		case "Wants":
			wants = fmt.Sprint(p.Value.Value())
		case "Environment":
			environment = fmt.Sprint(p.Value.Value())
		case "WorkingDirectory":
			t.Errorf("a directory is asked for: %v", p.Value)
		}
	}
	if wants != "[unitwardhold0a1b.slice]" || environment != "[A=b]" {
		t.Errorf("the service wants %s, with %s", wants, environment)
	}
	if len(auxes) != 1 || auxes[0].Name != "unitwardhold0a1b.slice" || auxes[0].Properties[1].Name != "After" || fmt.Sprint(auxes[0].Properties[1].Value.Value()) != "[job.service]" {
		t.Errorf("with it come %+v", auxes)
	}
}
