package e2e

import (
	"os"
	"strings"
	"testing"
)

// TestSandboxedStart: what goes on in the background keeps its exit and its
// output whatever its properties hide from it, the state directory below /tmp
// among it, and what runs as somebody else, or elsewhere, keeps its exit.
func TestSandboxedStart(t *testing.T) {
	w := newWard(t)
	root := t.TempDir()
	below := []string{"RootDirectory=" + root, "BindReadOnlyPaths=/usr /bin /lib /lib64"}
	for _, c := range []struct {
		properties []string
		captured   bool
		root       bool // for the system manager alone
	}{
		{[]string{"PrivateTmp=yes"}, true, false},
		{[]string{"ProtectSystem=strict"}, true, false},
		{[]string{"ProtectHome=tmpfs", "ProtectSystem=full", "PrivateTmp=yes"}, true, false},
		{[]string{"ProtectHome=yes"}, true, true}, // which hides the runtime directory of a user
		{[]string{"TemporaryFileSystem=/tmp:ro"}, true, true},
		{[]string{"ReadOnlyPaths=/", "PrivateDevices=yes"}, true, true},
		{[]string{"DynamicUser=yes"}, false, true},
		{[]string{"User=nobody", "PrivateTmp=yes"}, false, true},
		{below, false, true},
	} {
		t.Run(strings.ReplaceAll(strings.Join(c.properties, ","), root, "DIR"), func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("user: a user manager may not do that")
			}
			w := w.again(t)
			args := []string{"start", "--working-directory", "/", "-u", "sandboxed"}
			for _, p := range c.properties {
				args = append(args, "-p", p)
			}
			w.want(0, append(args, "--", "sh", "-c", "echo out; exit 3")...)
			w.want(3, "wait", "sandboxed")
			w.report("status", "sandboxed").has("state=settled", "confirmed=true", "reason=failed", "exit.code=3")
			if !c.captured {
				return
			}
			if a := w.want(0, "logs", "sandboxed"); a.out != "out\n" {
				t.Errorf("its output is %s", a)
			}
		})
	}
}
