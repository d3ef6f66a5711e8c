package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// A job whose only witness was killed has ended, and its outcome is lost. That
// is said by whoever asks, and its name is free.
func TestLostOutcomeFreesTheName(t *testing.T) {
	w := newWard(t)
	broker(t) // by the private socket a job has a recorder, and nothing is lost
	lose := func() {
		t.Helper()
		f := w.run("-u", "lost-name", "--", "sleep", "1061")
		alive(t, "sleep", "1061")
		if !eventually(func() bool { return w.report("status", "lost-name").get("state") == "running" }) {
			t.Fatal("its start is not recorded")
		}
		f.signal(syscall.SIGKILL)
		gone(t, patience, "sleep", "1061")
		if left := ""; !eventually(func() bool { left = loadedUnits("lost-name*"); return left == "" }) {
			t.Fatalf("units are left: %s", left)
		}
	}
	lose()
	r := w.report("status", "lost-name")
	r.has("state=unknown", "reason=unknown", "exit.known=false", "tree.empty=true", "confirmed=false")
	a := w.want(123, "stop", "lost-name")
	if strings.Contains(a.err, "it has ended") || !strings.Contains(a.err, "the outcome is unknown") {
		t.Errorf("want to be told that the outcome is unknown, of %s", a)
	}
	if list := w.want(0, "list").out; !strings.Contains(list, "lost-name") {
		t.Errorf("it is not listed: %s", list)
	}
	// A start that comes to nothing does not take its place.
	w.want(125, "run", "-u", "lost-name", "-p", "AssertPathExists=/no/such/file", "--", "true")
	w.report("status", "lost-name").has("state=unknown", "exit.known=false", "tree.empty=true")
	w.want(4, "run", "-u", "lost-name", "--", "sh", "-c", "exit 4")
	w.report("status", "lost-name").has("state=settled", "exit.code=4")
	lose()
	w.want(0, "start", "-u", "lost-name", "--", "sh", "-c", "exit 5")
	w.want(5, "wait", "lost-name")
	// What runs keeps its name.
	w.want(0, "start", "-u", "lost-name", "--", "sleep", "1062")
	w.want(125, "run", "-u", "lost-name", "--", "true")
	w.want(0, "stop", "--grace", "0s", "lost-name")
}
