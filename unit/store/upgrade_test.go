package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
)

// oldRecord is what the first version wrote of a detached service, with a field
// that only a later one knows. It never changes: whatever is installed over a
// running job has to read it.
const oldRecord = `{"schema":"unitward.job/1","name":"old","identity":{"host":"0123456789abcdef0123456789abcdef","boot_id":"fedcba9876543210fedcba9876543210",` +
	`"uid":1000,"isolation":"service","manager":"user","unit":"old.service","nonce":"n0","invocation_id":"i0","cgroup":"/a/old.service","cgroup_inode":7,"pid":11,"start_time":12},` +
	`"command":["sh","-c","exit 7"],"cwd":"/","owner":"s1","lifetime":"detached","leftovers":"kill","timeout_ns":0,"grace_ns":10000000000,"kill_signal":0,` +
	`"launcher":{"pid":3,"start_time":4},"created_at":"2026-03-04T05:06:07Z","started_at":"2026-03-04T05:06:08Z","recorder":true,` +
	`"stop":{"requested_at":null,"by":null,"steps":null},"of_a_later_version":{"a":[1]}}`

// oldExit is what its recorder wrote.
const oldExit = `{"schema":"unitward.exit/1","invocation_id":"i0","exit_code":"exited","exit_status":"7","service_result":"exit-code","at":"2026-03-04T05:06:09Z","of_a_later_version":1}`

// An upgrade happens while jobs run: this version's recorder ends what another
// began, and this version reads what another recorded.
func TestUpgrade(t *testing.T) {
	s := fresh(t)
	e := create(t, s, "old")
	write := func(file, content string) {
		if err := os.WriteFile(filepath.Join(e.Dir(), file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("job.json", oldRecord)
	write("exit.json", oldExit)
	rec := load(t, s, "old")
	if rec.Identity.InvocationID != "i0" || !rec.Recorder || rec.Grace != 10*time.Second || rec.Lifetime != unit.LifetimeDetached || rec.Identity.CgroupInode != 7 || rec.Launcher.PID != 3 {
		t.Errorf("the record is %+v", rec)
	}
	x, err := e.Recorded()
	if err != nil || x.InvocationID != "i0" || x.ExitStatus != "7" {
		t.Errorf("what was recorded: %+v, %v", x, err)
	}
	if err := os.Remove(filepath.Join(e.Dir(), "exit.json")); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"INVOCATION_ID": "i0", "EXIT_CODE": "exited", "EXIT_STATUS": "8", "SERVICE_RESULT": "exit-code"}
	if err := RecordExit(e.Dir(), func(k string) string { return env[k] }, ended, Seen{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	// The older version's reader knows these fields, under these names.
	b, err := os.ReadFile(filepath.Join(e.Dir(), "exit.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"schema":"unitward.exit/1"`, `"invocation_id":"i0"`, `"exit_code":"exited"`, `"exit_status":"8"`, `"service_result":"exit-code"`, `"at":"20`} {
		if !strings.Contains(string(b), field) {
			t.Errorf("exit.json has no %s: %s", field, b)
		}
	}
	// And nothing of the record was touched.
	if b, err := os.ReadFile(filepath.Join(e.Dir(), "job.json")); err != nil || string(b) != oldRecord {
		t.Errorf("job.json is %s, %v", b, err)
	}
}
