package serve

import (
	"fmt"
	"os"
	"slices"

	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// Capabilities are what a client can require.
func Capabilities() map[string]bool {
	return map[string]bool{
		"output.notify":  true, // output as notifications and by cursor, from pipes
		"output.capture": true, // output in files that outlive the server
		"output.follow":  true, // notifications of captured output
		"output.files":   true, // the job gets the descriptors of files that the client names
		"output.merged":  true, // one pipe for both streams
		"output.raw":     true, // base64
		"output.limit":   true, // max_bytes and on_max
		"stdin.pipe":     true, // job.write and job.closeStdin
		"arguments.raw":  true, // {"base64": …} for what is not UTF-8
		"promote":        true,
		"abort":          true,
		"owner":          true,
		"pause":          true,
		"cancel":         true,
		"pty":            false,
	}
}

func (c *call) initialize() func() {
	var p InitializeParams
	if !c.params(&p) {
		return nil
	}
	var missing []string
	for _, name := range p.Required {
		if !Capabilities()[name] && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		e := fail(CodeCapabilities, KindCapabilities, fmt.Sprintf("cannot serve this client: it requires %.500q, which there is not", missing))
		e.Data.Missing = missing
		c.fail(e)
		return nil
	case p.Protocol != 0 && p.Protocol != Protocol:
		e := fail(CodeCapabilities, KindCapabilities, fmt.Sprintf("cannot serve this client: it speaks version %d of the protocol, and the server %d", p.Protocol, Protocol)).field("protocol")
		e.Data.Missing = []string{fmt.Sprintf("protocol %d", p.Protocol)}
		c.fail(e)
		return nil
	}
	c.s.mu.Lock()
	again := c.s.initialized
	c.s.initialized = true
	c.s.mu.Unlock()
	if again {
		c.fail(fail(CodeRequest, KindRequest, "cannot initialize: that was done before"))
		return nil
	}
	return func() {
		c.answer(nil, &InitializeResult{
			Protocol: Protocol, Server: Peer{Name: "unitward", Version: c.s.cfg.Version}, Capabilities: Capabilities(),
			Isolation: c.s.l.Foresee(c.ctx, launch.DefaultManager(os.Geteuid()), launch.Ladder()),
			Limits: Limits{
				Line: rpc.MaxLine, Running: c.s.cfg.MaxRunning, Queue: maxQueue, QueueMS: queueTime.Milliseconds(), Ring: maxRing, Stdin: maxStdin,
				Settled: maxSettled, SettledMS: settledTime.Milliseconds(), Tokens: maxTokens, TokensMS: tokenTime.Milliseconds(),
			},
		})
	}
}

func (c *call) doctor() func() {
	if !c.params(&Empty{}) {
		return nil
	}
	return func() {
		found := c.s.l.Examine(c.ctx, c.s.cfg.Caller)
		c.answer(nil, &found)
	}
}

func (c *call) shutdown() func() {
	if !c.params(&Empty{}) {
		return nil
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.ending, c.s.over = true, c
	close(c.s.quit)
	return nil
}
