package packages

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// agents installs the face for agents beside the launcher, lets it run a job as
// each user, and removes it again.
func agents(t *testing.T, deb string) {
	apt(t, "apt-get", "install", "-y", deb)
	owned := strings.Fields(root.want(t, 0, "dpkg-query", "-L", "unitward-mcp"))
	if out := tester.want(t, 0, "env", "MANPAGER=cat", "MAN_KEEP_FORMATTING=", "man", "unitward-mcp"); !strings.Contains(out, "mcpServers") {
		t.Errorf("man unitward-mcp:\n%s", out)
	}
	for _, u := range []*user{root, tester} {
		rep := useTool(t, u, "/usr/bin/unitward-mcp")
		if !rep.Confirmed || rep.Exit.Code == nil || *rep.Exit.Code != 7 || rep.Isolation != "service" {
			t.Errorf("%s: %+v", u.name, rep)
		}
		u.want(t, 7, "unitward", "wait", rep.Name)
		u.want(t, 3, "unitward-shell", "-c", "exit 3")
	}
	apt(t, "apt-get", "purge", "-y", "unitward-mcp")
	for _, f := range owned {
		if strings.Contains(f, "unitward-mcp") && len(find(t, f)) > 0 {
			t.Errorf("%s is left", f)
		}
	}
	if len(owned) < 8 {
		t.Errorf("the package had only %v", owned)
	}
	tester.want(t, 0, "unitward", "run", "--", "true")
}

// toolReport is what a tool says of a job.
type toolReport struct {
	Name, Isolation string
	Confirmed       bool
	Exit            struct{ Code *int }
}

// useTool has a job run by a tool, and waits for the answer before it ends the
// program's input.
func useTool(t *testing.T, u *user, program string) (rep toolReport) {
	t.Helper()
	cmd := u.cmd(program)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	hang := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	defer hang.Stop()
	_, err := io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"command":["sh","-c","exit 7"],"lifetime":"detached"}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	answered := false
	for lines := bufio.NewScanner(out); !answered && lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		var m struct {
			ID     int
			Result struct {
				StructuredContent struct{ Report toolReport }
			}
		}
		err := json.Unmarshal(lines.Bytes(), &m)
		answered, rep = err == nil && m.ID == 2, m.Result.StructuredContent.Report
	}
	in.Close()
	if err := cmd.Wait(); err != nil || !answered {
		t.Fatalf("%s as %s: %v\n%s%s", program, u.name, err, said.String(), errs.String())
	}
	return rep
}
