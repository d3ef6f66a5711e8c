package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

// settledJob puts a sealed record there, and output by the names of its files.
func settledJob(t *testing.T, state, name string, output map[string]string) (dir string) {
	t.Helper()
	s, err := store.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec := &unit.Record{Schema: unit.RecordSchema, Name: name, Command: []string{"true"}, Sealed: &unit.Report{Name: unit.Text(name), Confirmed: true}}
	e, err := s.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for file, content := range output {
		if err := os.WriteFile(filepath.Join(e.Dir(), file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return e.Dir()
}

func TestLogs(t *testing.T) {
	state := alone(t)
	settledJob(t, state, "foo", map[string]string{
		"stdout": "one\ntwo\n", "stdout.0000000000000008": "three\n", "stdout.0000000000000100": "last\n", "stdout.0000000000000110.end": "",
		"stderr": "e1\ne2\x00\xff\n", "stderr.0000000000000008.end": "",
	})
	const gap = "unitward: 86 bytes of stdout were dropped here\n"
	const gap2 = "unitward: 5 bytes of stdout were dropped here\n"
	for _, c := range []struct {
		args      string
		out, errs string
	}{
		{"", "one\ntwo\nthree\nlast\n", gap + gap2 + "e1\ne2\x00\xff\n"},
		{"--stream stdout", "one\ntwo\nthree\nlast\n", gap + gap2},
		{"--stream stderr", "", "e1\ne2\x00\xff\n"},
		{"--stream stderr --show-cursor", "", "e1\ne2\x00\xff\ncursor: o0e8\n"},
		{"--show-cursor", "one\ntwo\nthree\nlast\n", gap + gap2 + "e1\ne2\x00\xff\ncursor: o110e8\n"},
		{"--cursor o110e8", "", ""},
		{"--cursor o110e8 --show-cursor", "", "cursor: o110e8\n"},
		{"--cursor o10e8", "ree\nlast\n", gap + gap2},
		{"--cursor o50e8", "last\n", "unitward: 50 bytes of stdout were dropped here\n" + gap2},
		{"--cursor o102e3", "st\n", gap2 + "e2\x00\xff\n"},
		{"--tail 1", "last\n", "unitward: 86 bytes of stdout were dropped here\n" + gap2 + "e2\x00\xff\n"},
		{"--tail 0 --show-cursor", "", "cursor: o110e8\n"},
		{"--tail 2 --stream stdout", "three\nlast\n", gap + gap2},
		{"--tail 99 --cursor o8e8", "three\nlast\n", gap + gap2},
		{"-f", "one\ntwo\nthree\nlast\n", gap + gap2 + "e1\ne2\x00\xff\n"},
		{"-f --tail 1 --stream stderr", "", "e2\x00\xff\n"},
	} {
		status, out, errs := do(t, append([]string{"logs", "foo"}, strings.Fields(c.args)...)...)
		if status != 0 || out != c.out || errs != c.errs {
			t.Errorf("logs %s: %d, %q, %q; want %q, %q", c.args, status, out, errs, c.out, c.errs)
		}
	}
	for args, says := range map[string]string{
		"--cursor o111e0": "cannot read stdout from byte 111: it has 110 bytes", "--cursor o0e9": "stderr from byte 9",
	} {
		if status, out, errs := do(t, append([]string{"logs", "foo"}, strings.Fields(args)...)...); status != exitError || out != "" || !strings.Contains(errs, says) {
			t.Errorf("logs %s: %d, %q, %q", args, status, out, errs)
		}
	}
}

func TestLogsJSON(t *testing.T) {
	state := alone(t)
	// A character in two files, half a character before a gap, and no text.
	long := strings.Repeat("é", 50_000)
	settledJob(t, state, "foo", map[string]string{
		"stdout": "a\nb<\xc3", "stdout.0000000000000005": "\xa9\nc\n\xe2\x82", "stdout.0000000000000100": "\xacd\n",
		"stderr": "x" + long, "stderr.0000000000100001.end": "",
	})
	for _, follow := range [][]string{nil, {"-f"}} {
		status, out, errs := do(t, append([]string{"logs", "--json", "foo"}, follow...)...)
		if status != 0 || errs != "" {
			t.Fatalf("%d, %q", status, errs)
		}
		var got []string
		text := ""
		for line := range strings.Lines(out) {
			var o struct {
				Stream         string
				Offset         int64
				Data           *string
				Base64         *string `json:"data_base64"`
				Dropped        int64
				Cursor, Closed any
			}
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			switch {
			case o.Cursor != nil:
				got = append(got, fmt.Sprintf("%v %v", o.Cursor, o.Closed))
			case o.Stream == "stderr":
				if o.Data == nil || o.Offset != int64(len(text)) {
					t.Errorf("%.80q", line)
				} else {
					text += *o.Data
				}
			case o.Base64 != nil:
				b, err := base64.StdEncoding.DecodeString(*o.Base64)
				got = append(got, fmt.Sprintf("%d+%d %x %v", o.Offset, o.Dropped, b, err))
			default:
				got = append(got, fmt.Sprintf("%d+%d %q", o.Offset, o.Dropped, *o.Data))
			}
		}
		want := []string{`0+0 "a\nb<é\nc\n"`, "9+0 e282 <nil>", "100+89 ac <nil>", `101+0 "d\n"`, "o103e100001 false"}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q, want %q", got, want)
		}
		if text != "x"+long {
			t.Errorf("the long line has %d bytes", len(text))
		}
	}
	settledJob(t, state, "bar", map[string]string{"stdout": "", "stdout.0000000000000000.end": ""})
	if _, out, _ := do(t, "logs", "--json", "bar"); out != `{"cursor":"o0e0","closed":true}`+"\n" {
		t.Errorf("%q", out)
	}
}

func TestLogsOfWhatWasNotCaptured(t *testing.T) {
	state := alone(t)
	settledJob(t, state, "foo", nil)
	for _, args := range [][]string{{"logs", "foo"}, {"logs", "-f", "foo"}, {"logs", "--stream", "stderr", "foo"}} {
		status, out, errs := do(t, args...)
		if status != exitError || out != "" || errs != "unitward: cannot print the output of job foo: it was not captured\nhint: what went to the journal is shown by: journalctl -u foo.service\n" {
			t.Errorf("%q: %d, %q, %q", args, status, out, errs)
		}
	}
	for want, id := range map[string]unit.Identity{
		"journalctl --user -u x.service": {Isolation: verify.IsolationService, Unit: "x.service", Manager: unit.ManagerUser},
		"journalctl -u x.service":        {Isolation: verify.IsolationService, Unit: "x.service", Manager: unit.ManagerSystem},
		"journalctl -t n":                {Isolation: verify.IsolationGroup},
	} {
		e := &uncapturedError{&unit.Record{Name: "n", Identity: id}}
		if h := e.Hint(); !strings.HasSuffix(h[0], ": "+want) {
			t.Errorf("%+v: %q", id, h)
		}
	}
	dir := settledJob(t, state, "linked", nil)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "stdout")); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := do(t, "logs", "linked"); status != exitError || out != "" || !strings.Contains(errs, "it is not a regular file") {
		t.Errorf("a link: %d, %q, %q", status, out, errs)
	}
}

// printer is logs with its streams in pipes.
type printer struct {
	out, errs *bufio.Reader
	outR      *os.File
	ended     chan int
}

func follow(t *testing.T, args ...string) *printer {
	t.Helper()
	pipe := func() (*os.File, *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r, w
	}
	outR, outW := pipe()
	errR, errW := pipe()
	p := &printer{bufio.NewReader(outR), bufio.NewReader(errR), outR, make(chan int, 1)}
	go func() {
		status := execute(append([]string{"logs", "-f"}, args...), streams{In: os.Stdin, Out: outW, Err: errW})
		outW.Close()
		errW.Close()
		p.ended <- status
	}()
	return p
}

func (p *printer) line(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); got != want || err != nil {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

func (p *printer) end(t *testing.T, want int) {
	t.Helper()
	select {
	case got := <-p.ended:
		if got != want {
			rest, _ := io.ReadAll(p.errs)
			t.Errorf("status %d, want %d: %s", got, want, rest)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

// liveJob starts a job that waits, with output of ours.
func liveJob(t *testing.T, state, name string) (out, errs *os.File) {
	t.Helper()
	if status, _, e := do(t, "start", "--isolation", "group", "-u", name, "--output", "null", "--", "sleep", "600"); status != 0 {
		t.Fatalf("start: %d, %s", status, e)
	}
	t.Cleanup(func() { do(t, "stop", "--grace", "0s", name) })
	dir, err := os.Open(filepath.Join(state, "jobs", name))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	outR, outW, err1 := os.Pipe()
	errR, errW, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	c, err := capture.Start(dir, capture.Config{Stdout: outR, Stderr: errR, Max: 1000})
	if err != nil {
		t.Fatal(err)
	}
	outR.Close()
	errR.Close()
	t.Cleanup(func() { outW.Close(); errW.Close(); c.Close() })
	return outW, errW
}

func stopped(t *testing.T, name string) {
	t.Helper()
	if status, _, e := do(t, "stop", "--grace", "0s", name); status != 0 {
		t.Fatalf("stop: %d, %s", status, e)
	}
}

func TestLogsFollow(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts jobs")
	}
	state := alone(t)
	out, errs := liveJob(t, state, "foo")
	fmt.Fprintln(out, "before")
	p := follow(t, "--show-cursor", "foo")
	p.line(t, p.out, "before\n")
	q := follow(t, "--json", "foo")
	for i := range 20 {
		fmt.Fprintln(errs, "error", i)
		p.line(t, p.errs, fmt.Sprintln("error", i))
		fmt.Fprintln(out, "line", i)
		p.line(t, p.out, fmt.Sprintln("line", i))
	}
	for said := ""; !strings.Contains(said, "line 19"); { // it has caught up
		var err error
		if said, err = q.out.ReadString('\n'); err != nil {
			t.Fatalf("as JSON: %q, %v", said, err)
		}
	}
	fmt.Fprint(out, "\xc3")
	if b, err := p.out.ReadByte(); b != 0xc3 || err != nil {
		t.Fatalf("%x, %v", b, err)
	}
	stopped(t, "foo")
	fmt.Fprint(out, "\xa9") // settled, and the streams are not closed
	out.Close()
	errs.Close()
	if rest, err := io.ReadAll(p.out); string(rest) != "\xa9" || err != nil {
		t.Errorf("at the end %q, %v", rest, err)
	}
	p.line(t, p.errs, "cursor: o159e170\n")
	p.end(t, 0)
	if all, err := io.ReadAll(q.out); !strings.Contains(string(all), `"data":"é"`) || !strings.HasSuffix(string(all), `{"cursor":"o159e170","closed":true}`+"\n") || err != nil {
		t.Errorf("as JSON: %s, %v", all, err)
	}
	q.end(t, 0)
}

// Who captures was killed: the end of the streams will never be told.
func TestLogsFollowWithoutAnEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts jobs")
	}
	state := alone(t)
	out, _ := liveJob(t, state, "foo")
	p := follow(t, "foo")
	fmt.Fprintln(out, "line")
	p.line(t, p.out, "line\n")
	stopped(t, "foo")
	p.end(t, 0)
}

func TestLogsFollowIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts jobs")
	}
	state := alone(t)
	out, _ := liveJob(t, state, "foo")
	fmt.Fprintln(out, "line")

	// Its reader goes away while nothing is written.
	p := follow(t, "foo")
	p.line(t, p.out, "line\n")
	p.outR.Close()
	p.end(t, 0)

	// As a process of its own, it is interrupted.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "UNITWARD_TEST_ARGS=logs -f --show-cursor foo")
	var errs strings.Builder
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(stdout)
	if line, err := r.ReadString('\n'); line != "line\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, r)
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || errs.String() != "cursor: o5e0\n" {
		t.Errorf("after SIGINT: %v, %q", cmd.ProcessState, &errs)
	}

	// The job's directory is dropped.
	p = follow(t, "foo")
	p.line(t, p.out, "line\n")
	stopped(t, "foo")
	if err := os.Rename(filepath.Join(state, "jobs", "foo"), filepath.Join(state, "jobs", ".trash-foo")); err != nil {
		t.Fatal(err)
	}
	p.end(t, 0)
}
