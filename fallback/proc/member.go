package proc

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/unitward/unitward/verify"
)

// maxCommand bounds a command line that is shown.
const maxCommand = 256

// Member describes the process whose stat is s for a report.
func (p *Process) Member(s Stat) verify.Member {
	m := verify.Member{PID: s.PID, State: string(p.state(s)), Command: p.command()}
	if m.Command == "" {
		m.Command = "[" + s.Comm + "]"
	}
	if m.State == "D" {
		wchan, _ := p.read("wchan", maxCommand)
		m.Wchan = strings.Trim(string(wchan), "0")
	}
	return m
}

// state is that of another thread where the leading one has ended alone: the
// process is no zombie.
func (p *Process) state(s Stat) byte {
	if s.State != 'Z' || s.Ended() {
		return s.State
	}
	for _, tid := range p.threads() {
		b, err := p.read("task/"+strconv.Itoa(tid)+"/stat", maxStat)
		if err != nil {
			continue
		}
		if t, err := ParseStat(string(b)); err == nil && t.State != 'Z' {
			return t.State
		}
	}
	return '?'
}

func (p *Process) command() string {
	b, err := p.read("cmdline", maxCommand)
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(bytes.ReplaceAll(bytes.TrimRight(b, "\x00"), []byte{0}, []byte{' '}), []byte("?")))
}
