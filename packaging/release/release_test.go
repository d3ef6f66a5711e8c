package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const example = `# Changelog

The form is that of [Keep a Changelog](https://keepachangelog.com/).

## [Unreleased]

### Added

- ` + "`unitward serve`" + `, which is described in a line that is so long that it goes on
  in the next one.

## [0.2.0] - 2026-02-01

### Fixed

- One thing.
- Another.

### Security

- A third.

## [0.1.0] - 2026-01-01

### Added

- All of it.

[0.1.0]: https://example.org/
`

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func parse(t *testing.T, text string) *changelog {
	t.Helper()
	log, err := parseChangelog(text)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestDebianChangelog(t *testing.T) {
	const want = `unitward (0.2.0+git20260304.0123abcd-1) unstable; urgency=medium

  * Added: unitward serve, which is described in a line that is so long that
    it goes on in the next one.

 -- unitward maintainers <unitward@users.noreply.github.com>  Wed, 04 Mar 2026 05:06:07 +0000

unitward (0.2.0-1) unstable; urgency=medium

  * Fixed: One thing.
  * Fixed: Another.
  * Security: A third.

 -- unitward maintainers <unitward@users.noreply.github.com>  Sun, 01 Feb 2026 00:00:00 +0000

unitward (0.1.0-1) unstable; urgency=medium

  * Added: All of it.

 -- unitward maintainers <unitward@users.noreply.github.com>  Thu, 01 Jan 2026 00:00:00 +0000
`
	log := parse(t, example)
	version, err := log.version("", "0123abcd4567", at)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeDebian(&b, log.released(version, at), "unitward"); err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := writeRPM(&b, log.released(version, at)); err != nil || !strings.HasPrefix(b.String(), `- semver: "0.2.0+git20260304.0123abcd-1"
  date: 2026-03-04T05:06:07Z
  packager: "unitward maintainers <unitward@users.noreply.github.com>"
  changes:
    - note: "Added: unitward serve, which is described in a line that is so long that\nit goes on in the next one."
- semver: "0.2.0-1"
`) {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// A release is one whose changes stand below its own version.
func TestCheck(t *testing.T) {
	released := strings.Replace(example, "### Added\n\n- `unitward serve`, which is described in a line that is so long that it goes on\n  in the next one.\n\n", "", 1)
	for _, c := range []struct{ text, tag, says string }{
		{released, "v0.2.0", ""},
		{released, "v0.1.0", "the newest entry of the changelog is 0.2.0"},
		{released, "v0.3.0", "the newest entry of the changelog is 0.2.0"},
		{released, "0.2.0", "a tag is like v1.2.3"},
		{example, "v0.2.0", "changes under [Unreleased]"},
		{"# Changelog\n", "v0.2.0", "no entry"},
		{"## [0.2.0] - 2026-01-01\n", "v0.2.0", "is empty"},
	} {
		log := parse(t, c.text)
		err := log.check(c.tag)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.tag, err, c.says)
		}
		if version, err2 := log.version(c.tag, "", at); (err == nil) != (err2 == nil) || err == nil && version != "0.2.0" {
			t.Errorf("the version of %s: %q, %v", c.tag, version, err2)
		}
	}
	if v, err := parse(t, "## [Unreleased]\n").version("", "0123abcd4567", at); err != nil || v != "0.0.0~git20260304.0123abcd" {
		t.Errorf("before the first release: %q, %v", v, err)
	}
	// A commit after a release, with nothing to say: its entry is its own.
	if e := parse(t, released).released("0.2.0+git1", at)[0]; e.version != "0.2.0+git1" || len(e.groups) != 1 {
		t.Errorf("its newest entry is %v", e)
	}
}

func TestStrict(t *testing.T) {
	for _, bad := range []string{
		"## 0.1.0\n", "## [0.1] - 2026-01-01\n", "## [0.1.0]\n", "## [0.1.0] - yesterday\n", "## [0.1.0] - 2026-01-01\n## [Unreleased]\n",
		"## [0.1.0] - 2026-01-01\n## [0.1.0] - 2026-01-01\n", "## [Unreleased]\n### News\n", "## [Unreleased]\ntext\n", "## [Unreleased]\n### Added\ntext\n", "## [Unreleased]\n### Added\n  rest\n",
	} {
		if _, err := parseChangelog(bad); err == nil || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The repository's own changelog can be read.
func TestOurs(t *testing.T) {
	if _, err := readChangelog("../../CHANGELOG.md"); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.1.gz", "b.1.gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "x.yaml")
	const text = `version: ${VERSION}
changelog: ${CHANGELOG}
  - {src: "${BUILD}/*.1.gz", dst: /man/, packager: deb}
  - {src: "${BUILD}/*.1.gz", dst: /man/, packager: rpm, type: doc}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{
		"deb": "version: 1\nchangelog: \n  - {src: \"D/*.1.gz\", dst: /man/, packager: deb}\n  - {src: \"D/*.1.gz\", dst: /man/, packager: rpm, type: doc}\n",
		"rpm": "version: 1\nchangelog: D/changelog.yaml\n  - {src: \"D/*.1.gz\", dst: /man/, packager: deb}\n" +
			"  - {src: \"D/a.1.gz\", dst: /man/a.1.gz, packager: rpm, type: doc}\n  - {src: \"D/b.1.gz\", dst: /man/b.1.gz, packager: rpm, type: doc}\n",
	} {
		var b bytes.Buffer
		err := writeConfig(&b, file, kind, "amd64", "1", dir)
		if got := strings.ReplaceAll(b.String(), dir, "D"); err != nil || got != want {
			t.Errorf("%s: %v\n%s", kind, err, got)
		}
	}
	if err := writeConfig(&bytes.Buffer{}, file, "rpm", "amd64", "1", dir+"/nothing"); err == nil {
		t.Error("a pattern that matches nothing was taken")
	}
}

// The list of modules is the go command's own, of this test as of any program.
func TestSBOM(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if err := writeSBOM(&a, exe, "1.2.3", at); err != nil {
		t.Fatal(err)
	}
	if err := writeSBOM(&b, exe, "1.2.3", at); err != nil || a.String() != b.String() {
		t.Errorf("twice the same is different: %v", err)
	}
	var doc bom
	if err := json.Unmarshal(a.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Components) != len(info.Deps)+1 || doc.Metadata.Component.Version != "1.2.3" || doc.Components[0].Name != "std" {
		t.Errorf("of %d modules: %s", len(info.Deps), a.String())
	}
	if !strings.HasPrefix(doc.SerialNumber, "urn:uuid:") || len(doc.SerialNumber) != len("urn:uuid:")+36 {
		t.Errorf("the serial number is %s", doc.SerialNumber)
	}
	if err := writeSBOM(&b, "release_test.go", "1", at); err == nil {
		t.Error("what is no program was taken")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"check"}, {"version", "a", "b"}, {"sbom", "a", "b", "c", "d"}, {"version", "", "", "x"}} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
