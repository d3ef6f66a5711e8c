package dbusclient

import (
	"bytes"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// answer gives each property that is asked for, until the connection ends.
func (p *peer) answer(properties map[string]any) {
	for got := []byte(nil); ; {
		for {
			n, err := dbus.Frame(got)
			if err != nil {
				p.t.Error(err)
				return
			}
			if n == 0 {
				break
			}
			m, err := dbus.Decode(got[:n:n], nil)
			if err != nil {
				p.t.Error(err)
				return
			}
			got = got[n:]
			p.write(replyTo(p.t, m.Serial, dbus.MakeVariant(properties[m.Body[1].(string)])))
		}
		b := make([]byte, 4096)
		n, err := p.conn.Read(b)
		if err != nil {
			return
		}
		got = append(got, b[:n]...)
	}
}

// Of a unit that it has unloaded a manager answers with defaults: what its signals
// told of the end counts then, and else the answers.
func TestReadOfUnloaded(t *testing.T) {
	answers := func(load string, invocation []byte, result string, at uint64) map[string]any {
		return map[string]any{
			"LoadState": load, "ActiveState": "inactive", "SubState": "dead", "ExecMainCode": int32(0), "ExecMainStatus": int32(0), "ControlGroup": "",
			"CPUUsageNSec": unset, "TasksCurrent": unset, "Slice": "", "ExecMainPID": uint32(0), "ExecMainHandoffTimestamp": uint64(0), "InvocationID": invocation,
			"Result": result, "InactiveEnterTimestamp": at, "ExecMainStartTimestamp": at, "ExecMainExitTimestamp": at,
		}
	}
	signalled := variants("Result", "exit-code", "InactiveEnterTimestamp", uint64(9), "ExecMainStartTimestamp", uint64(7), "ExecMainExitTimestamp", uint64(8))
	for _, c := range []struct {
		about           string
		signalled       bool
		answers         map[string]any
		result          string
		start, exit, in time.Time
	}{
		{"unloaded, and its end was signalled", true, answers("not-found", nil, "success", 0), "exit-code", wall(7), wall(8), wall(9)},
		{"unloaded, and nothing was signalled", false, answers("not-found", nil, "success", 0), "success", wall(0), wall(0), wall(0)},
		{"loaded: the answers are newer", true, answers("loaded", []byte("0123456789abcdef"), "signal", 20), "signal", wall(20), wall(20), wall(20)},
	} {
		p, err := connect(t, consents)
		if err != nil {
			t.Fatal(err)
		}
		p.read(func(b []byte) bool { return bytes.HasSuffix(b, []byte("BEGIN\r\n")) })
		go p.answer(c.answers)
		u := (&Client{link: &link{wire: p.wire, version: 252}, pump: newPump()}).unit("a.service")
		if c.signalled {
			u.follower.date(signalled)
		}
		r := u.Read(t.Context(), DepthAll)
		if !r.Read || r.Result != c.result || !r.MainStartAt.Equal(c.start) || !r.MainExitAt.Equal(c.exit) || !r.InactiveEnterAt.Equal(c.in) {
			t.Errorf("%s: %+v", c.about, r)
		}
	}
}
