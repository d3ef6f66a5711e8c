package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit/serve"
)

// What cannot be read costs who sent it an error, and no job.
func TestHostileLines(t *testing.T) {
	p := dial(t, "group")
	p.call("start", p.job(map[string]any{"name": "unharmed"}, "sleep", "47412")).into(t, &serve.StartResult{})
	for _, c := range []struct {
		line, id string
		code     int
	}{
		{"nonsense", "null", -32700},
		{`{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{`, "null", -32700},
		{"{\"jsonrpc\":\"2.0\",\"id\":1001,\"method\":\"\xff\xfe\"}", "1001", -32601},
		{`{"jsonrpc":"2.0","id":1002,"method":"no/such"}`, "1002", -32601},
		{`{"jsonrpc":"2.0","id":1003,"method":"tools/call","params":{"name":"no such tool"}}`, "1003", -32602},
		{`{"jsonrpc":"1.0","id":1004,"method":"ping"}`, "1004", -32600},
		{`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, `{"a":1}`, -32600},
		{`[{"jsonrpc":"2.0","id":1005,"method":"ping"}]`, "null", -32700},
		{`{"jsonrpc":"2.0","id":1006,"method":"tools/call","params":"x"}`, "1006", -32602},
		{strings.Repeat("[", 100000), "null", -32700},
		{`"` + strings.Repeat("x", 17<<20) + `"`, "null", -32600},
	} {
		before := len(p.Said())
		p.Send(c.line)
		m := p.Find("error", before, func(m *message) bool { return m.Error != nil })
		if string(m.ID) != c.id || m.Error.Code != c.code || m.Error.Message == "" || len(m.raw) > 1000 {
			t.Errorf("%.80s: %.300s", c.line, m.raw)
		}
	}
	// Nobody has asked for these.
	p.Send(`{"jsonrpc":"2.0","id":4711,"result":{}}`)
	p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}`)
	p.Send(`{"jsonrpc":"2.0","method":"notifications/nonsense"}`)
	for i, arguments := range []string{`{}`, `{"command":[]}`, `{"command":"sleep 1"}`, `{"command":["true"],"unknown":1}`, `{"command":["true"],"lifetime":"for ever"}`,
		`{"command":["true"],"timeout_ms":-1}`, `{"command":["true"],"background_after_ms":-1}`, `null`, `{"command":["/no/such/program"]}`, `{"command":["true"],"name":"../x"}`} {
		id := fmt.Sprintf(`"args%d"`, i)
		p.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"run","arguments":` + arguments + `}}`)
		if o := p.outcome(id); !o.IsError || o.Content[0].Text == "" {
			t.Errorf("%s: %+v", arguments, o)
		}
	}
	var j serve.JobResult
	p.call("status", map[string]any{"name": "unharmed"}).into(t, &j)
	if j.Report.State != "running" {
		t.Errorf("%+v", j)
	}
	p.end(0)
}

// A flood of requests is refused where there are too many, by their ids.
func TestFlood(t *testing.T) {
	p := dial(t, "group")
	p.call("start", p.job(map[string]any{"name": "long"}, "sleep", "47413")).into(t, &serve.StartResult{})
	var ids []string
	for range maxCalls + 100 {
		ids = append(ids, p.Ask("tools/call", map[string]any{"name": "wait", "arguments": map[string]any{"name": "long"}}))
	}
	p.Send(`{"jsonrpc":"2.0","id":` + ids[0] + `,"method":"ping"}`)
	if m := p.Find("refusal of a double id", 0, func(m *message) bool { return string(m.ID) == "null" }); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("%s", m.raw)
	}
	if m := p.answer(ids[len(ids)-1]); m.Error == nil || !strings.Contains(m.Error.Message, "too many are under way") {
		t.Errorf("%s", m.raw)
	}
	refused := 0
	p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + ids[0] + `}}`)
	p.answer(ids[0])
	p.call("stop", map[string]any{"name": "long"}).into(t, &serve.StopResult{})
	for _, id := range ids {
		if m := p.answer(id); m.Error != nil {
			refused++
		}
	}
	if refused < 100 || refused > 102 {
		t.Errorf("%d were refused", refused)
	}
	p.end(0)
}

// A client that does not read holds up no job, costs bounded memory, and keeps
// nobody from ending.
func TestClientThatDoesNotRead(t *testing.T) {
	cmd, state := underTest(t, "")
	p := begin(t, cmd)
	p.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"deaf","version":"1"}}}`)
	p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.Send(`{"jsonrpc":"2.0","id":"job","method":"tools/call","params":{"name":"start","arguments":{"isolation":["group"],"command":["sh","-c","while :; do date >` + state + `.beat; sleep .05; done"]}}}`)
	go func() {
		for i := range 100000 {
			if _, err := fmt.Fprintf(p.In, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i+1); err != nil {
				return // it is held up, and then the program ends
			}
		}
	}()
	beat := func() string { b, _ := os.ReadFile(state + ".beat"); return string(b) }
	if !eventually(func() bool { return beat() != "" }) {
		t.Fatal("the job does not run")
	}
	first := beat()
	if !eventually(func() bool { return beat() != first }) {
		t.Error("the job is held up")
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	if kib, _ := strconv.Atoi(strings.Fields(rest)[0]); kib > 80<<10 {
		t.Errorf("it has %d MiB", kib>>10)
	}
	// A signal ends it all the same.
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its status is looked at
	}()
	if !eventually(func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}) {
		t.Fatal("it does not end")
	}
	if cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it ended as %v: %s", cmd.ProcessState, p.errs.String())
	}
}
