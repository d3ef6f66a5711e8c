package keeper

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func bridge(t *testing.T, script string) *Bridge {
	t.Helper()
	b, err := NewBridge([]string{"sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Conn.Close(); b.End() })
	return b
}

// What is written to a bridge comes out on its other side, also when a terminal
// interrupts all that is in front of it.
func TestBridgePasses(t *testing.T) {
	b := bridge(t, "kill -INT $$; kill -QUIT $$; exec cat")
	if _, err := b.Conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(b.Conn, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	b.Conn.Close()
	if err := b.End(); err != nil {
		t.Errorf("cat ended with its input, and says %v", err)
	}
}

// What a bridge has to say of its end is what it printed as errors, bounded and in
// one line.
func TestBridgeSays(t *testing.T) {
	for script, want := range map[string]string{
		"echo no route >&2; exit 255":                        "no route",
		"printf 'first\\r\\n\\033[1m second\\n' >&2; exit 1": "first; ?[1m second",
		"exit 3":     "exit status 3",
		"kill -9 $$": "signal: killed",
		`head -c 100000 /dev/zero | tr "\0" x >&2; echo last >&2; exit 1`: "xlast",
	} {
		b := bridge(t, script)
		if _, err := b.Conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: something came", script)
		}
		b.Conn.Close()
		err := b.End()
		if err == nil || !strings.HasSuffix(err.Error(), want) || len(err.Error()) > bridgeSays+100 {
			t.Errorf("%s: it says %v, want %q", script, err, want)
		}
		if again := b.End(); again == nil || again.Error() != err.Error() {
			t.Errorf("%s: the second time it says %v", script, again)
		}
	}
}

// A bridge that does not end by itself is ended, and nobody takes that for its
// own end.
func TestBridgeHangs(t *testing.T) {
	for _, script := range []string{"exec sleep 1241", `trap "" TERM; while :; do sleep 1; done`} {
		b := bridge(t, script)
		b.Conn.Close()
		if err := b.End(); err != nil {
			t.Errorf("%s: it says %v", script, err)
		}
		if err := syscall.Kill(b.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: it is there: %v", script, err)
		}
	}
	if _, err := NewBridge([]string{"no-such-program-anywhere"}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a program that is not there: %v", err)
	}
	// Whatever holds its errors is not waited for.
	b := bridge(t, "sleep 2 & exit 1")
	b.Conn.Close()
	ended := make(chan struct{})
	go func() { b.End(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("what it left behind is waited for")
	}
}
