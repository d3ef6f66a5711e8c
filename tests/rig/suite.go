package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Suite is a Debian release, named for the systemd that it brings.
type Suite struct {
	Name    string
	Systemd string // its version; sid moves on
	Polkit  string // the package that has polkit there
}

// Suites are all that the rig knows, oldest systemd first.
var Suites = []Suite{
	{"bullseye", "247", "policykit-1"},
	{"bookworm", "252", "polkitd"},
	{"trixie", "257", "polkitd"},
	{"sid", "262", "polkitd"},
}

// FindSuite returns the suite of that name.
func FindSuite(name string) (Suite, error) {
	for _, s := range Suites {
		if s.Name == name {
			return s, nil
		}
	}
	return Suite{}, usageError(fmt.Sprintf("cannot find suite %q: there are bullseye, bookworm, trixie and sid", name))
}

// ParseSuites reads a comma-separated list; "all" is every suite, "none" and ""
// are no suite.
func ParseSuites(list string) ([]Suite, error) {
	switch list {
	case "all":
		return Suites, nil
	case "", "none":
		return nil, nil
	}
	var out []Suite
	for name := range strings.SplitSeq(list, ",") {
		s, err := FindSuite(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Packages are installed on top of Debian's minimal base.
func (s Suite) Packages() []string {
	return []string{
		"systemd", "systemd-sysv", "libpam-systemd",
		"dbus", "dbus-user-session", s.Polkit,
		"util-linux", "procps",
	}
}

// Key changes when a root file system has to be made anew.
func (s Suite) Key() string {
	const layout = "1"
	sum := sha256.Sum256([]byte(layout + " " + s.Name + " " + strings.Join(s.Packages(), ",") + "\n" + customize))
	return hex.EncodeToString(sum[:8])
}

// Root is the pristine root file system; it is only ever a lower layer.
func (s Suite) Root() string { return filepath.Join(stateDir(), "root-"+s.Name) }

// Version is what the built root really has, for instance "257.8"; empty before
// it is built.
func (s Suite) Version() string {
	const field = "\nPackage: systemd\n"
	b, err := os.ReadFile(filepath.Join(s.Root(), "var/lib/dpkg/status"))
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut("\n"+string(b), field)
	if !ok {
		return ""
	}
	_, v, ok := strings.Cut(rest, "\nVersion: ")
	if !ok {
		return ""
	}
	v, _, _ = strings.Cut(v, "\n")
	v, _, _ = strings.Cut(v, "-")
	return v
}

// String names the suite together with its systemd.
func (s Suite) String() string {
	v := s.Version()
	if v == "" {
		v = s.Systemd
	}
	return s.Name + " (systemd " + v + ")"
}

func stateDir() string {
	if d := os.Getenv("UNITWARD_RIG_DIR"); d != "" {
		return d
	}
	return "/var/tmp/unitward-rig"
}

func mirror() string {
	if m := os.Getenv("UNITWARD_RIG_MIRROR"); m != "" {
		return m
	}
	return "http://deb.debian.org/debian"
}
