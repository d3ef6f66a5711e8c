package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/unitward/unitward/unit"
)

func TestFullDisk(t *testing.T) {
	s := fresh(t)
	create(t, s, "foo")
	if out, err := child("full", filepath.Dir(s.Dir())).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if rec := load(t, s, "foo"); rec.OwnerProcess.PID != 0 || rec.Command[0] != "true" {
		t.Errorf("the record became %+v", rec)
	}
	if _, _, err := s.Load("bar"); !isNotFound(err) {
		t.Errorf("a job that could not be recorded: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(s.Dir(), "foo"))
	if err != nil || len(entries) != 1 {
		t.Errorf("what is left: %v, %v; want job.json and lock", entries, err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root writes to a read-only directory; run this as another user")
	}
	s := fresh(t)
	e := create(t, s, "foo")
	if err := os.Chmod(s.Dir(), 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(s.Dir(), 0o700)
	var bad *DirError
	if _, err := s.Create(newRecord("bar")); !errors.As(err, &bad) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Create: %v", err)
	}
	if err := e.Remove(); !errors.As(err, &bad) {
		t.Errorf("Remove: %v", err)
	}
	load(t, s, "foo")
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(dir string) error
		says string
	}{
		{"link", func(d string) error {
			other := d + "-other"
			return errors.Join(os.MkdirAll(other+"/jobs", 0o700), os.Symlink(other, d))
		}, "not a directory"},
		{"link to jobs", func(d string) error {
			return errors.Join(os.Mkdir(d, 0o700), os.Mkdir(d+"-other", 0o700), os.Symlink(d+"-other", d+"/jobs"))
		}, "not a directory"},
		{"file", func(d string) error { return os.WriteFile(d, nil, 0o600) }, "not a directory"},
		{"readable", func(d string) error { return errors.Join(os.MkdirAll(d+"/jobs", 0o700), os.Chmod(d, 0o755)) }, "0755"},
		{"shared", func(d string) error { return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o1777)) }, "0777"},
		{"jobs readable", func(d string) error { return errors.Join(os.MkdirAll(d+"/jobs", 0o700), os.Chmod(d+"/jobs", 0o750)) }, "0750"},
		{"foreign", func(d string) error { return errors.Join(os.MkdirAll(d+"/jobs", 0o700), os.Chown(d, 12345, 0)) }, "uid 12345"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if c.name == "foreign" && os.Geteuid() != 0 {
				t.Skip("only root can make a directory of another user")
			}
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir)
			var bad *DirError
			if !errors.As(err, &bad) || s != nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Open: %v; want a DirError with %q", err, c.says)
			}
			if _, err := os.Lstat(dir + "/jobs"); c.name == "shared" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it was refused, and jobs was made in it: %v", err)
			}
		})
	}
	var bad *DirError
	if _, err := Open("state"); !errors.As(err, &bad) {
		t.Errorf("Open of a relative path: %v", err)
	}
}

func TestLoadRefusesDirectories(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(dir string) error
	}{
		{"link", func(d string) error { return errors.Join(os.Rename(d, d+"2"), os.Symlink(filepath.Base(d)+"2", d)) }},
		{"link out", func(d string) error {
			out := filepath.Dir(filepath.Dir(d)) + "/out"
			return errors.Join(os.Rename(d, out), os.Symlink(out, d))
		}},
		{"file", func(d string) error { return errors.Join(os.RemoveAll(d), os.WriteFile(d, nil, 0o600)) }},
		{"readable", func(d string) error { return os.Chmod(d, 0o755) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fresh(t)
			seal(t, create(t, s, "foo"))
			if err := c.make(filepath.Join(s.Dir(), "foo")); err != nil {
				t.Fatal(err)
			}
			var bad *StrayError
			if _, _, err := s.Load("foo"); !errors.As(err, &bad) || bad.Path != filepath.Join(s.Dir(), "foo") {
				t.Errorf("Load: %v; want a StrayError", err)
			}
			if _, err := s.Create(newRecord("foo")); !errors.As(err, &bad) || len(bad.Hint()) != 1 {
				t.Errorf("Create over it: %v; want a StrayError", err)
			}
		})
	}
}

func TestRecordIsNotBelieved(t *testing.T) {
	const good = `{"schema":"unitward.job/1","name":"foo"}`
	write := func(content string, mode fs.FileMode) func(string) error {
		return func(f string) error { return errors.Join(os.WriteFile(f, []byte(content), mode), os.Chmod(f, mode)) }
	}
	for _, c := range []struct {
		name string
		make func(file string) error
		says string
	}{
		{"empty", write("", 0o600), "unexpected end"},
		{"cut", write(good[:20], 0o600), "unexpected end"},
		{"garbage", write("\x00\xff", 0o600), "invalid character"},
		{"trailing", write(good+"x", 0o600), "invalid character"},
		{"null", write("null", 0o600), "schema"},
		{"a list", write("[]", 0o600), "unmarshal"},
		{"no schema", write(`{"name":"foo"}`, 0o600), "schema"},
		{"next schema", write(`{"schema":"unitward.job/2","name":"foo"}`, 0o600), "unitward.job/2"},
		{"a report of another job", write(`{"schema":"unitward.job/1","name":"foo","sealed":{"name":"bar"}}`, 0o600), `report speaks of job "bar"`},
		{"another unit", write(`{"schema":"unitward.job/1","name":"foo","identity":{"unit":"bar.service"}}`, 0o600), `unit "bar.service"`},
		{"another job's", write(`{"schema":"unitward.job/1","name":"bar"}`, 0o600), `"bar"`},
		{"oversized", write(good+strings.Repeat(" ", maxRecord), 0o600), "more than"},
		{"readable", write(good, 0o644), "0644"},
		{"link", func(f string) error {
			return errors.Join(write(good, 0o600)(f+"2"), os.Symlink("job.json2", f))
		}, "too many levels"},
		{"directory", func(f string) error { return os.Mkdir(f, 0o700) }, "not a regular file"},
		{"fifo", func(f string) error { return syscall.Mkfifo(f, 0o600) }, "not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fresh(t)
			e := create(t, s, "foo")
			file := filepath.Join(e.Dir(), recordFile)
			if err := errors.Join(os.Remove(file), c.make(file)); err != nil {
				t.Fatal(err)
			}
			var bad *CorruptError
			if _, _, err := s.Load("foo"); !errors.As(err, &bad) || bad.File != file || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Load: %v; want a CorruptError with %q", err, c.says)
			}
			if _, err := e.Update(false, func(*unit.Record) { t.Error("it was changed") }); !errors.As(err, &bad) {
				t.Errorf("Update: %v", err)
			}
			if _, err := s.Create(newRecord("foo")); !errors.As(err, &bad) {
				t.Errorf("Create over it: %v", err)
			}
			if got, err := s.Names(); err != nil || len(got) != 1 {
				t.Errorf("Names hides it: %q, %v", got, err)
			}
		})
	}
}

func TestRecordIsBounded(t *testing.T) {
	s := fresh(t)
	e := create(t, s, "foo")
	if _, err := e.Update(false, func(r *unit.Record) { r.Owner = strings.Repeat("x", maxRecord) }); err == nil {
		t.Error("a record that nobody could read was written")
	}
	load(t, s, "foo")
}

func TestTemporaryFilesDoNotMatter(t *testing.T) {
	s := fresh(t)
	e := create(t, s, "foo")
	for _, f := range []string{".job.json-AAAA", ".exit.json-BBBB"} {
		if err := os.WriteFile(filepath.Join(e.Dir(), f), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load(t, s, "foo")
	if x, err := e.Recorded(); x != nil || err != nil {
		t.Errorf("Recorded: %v, %v", x, err)
	}
	seal(t, e)
	create(t, s, "foo")
	if entries, err := os.ReadDir(e.Dir()); err != nil || len(entries) != 1 {
		t.Errorf("the next job has %v, %v", entries, err)
	}
}
