package program

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Identity is which program this is. What is not known is empty.
type Identity struct {
	// Version is without a v.
	Version string `json:"version"`
	Commit  string `json:"commit"`
	// Date is the commit's, as RFC 3339 has it.
	Date string `json:"date"`
	Go   string `json:"go"`
}

// ReadIdentity takes what the linker was told, and where version is empty what
// the go command noted by itself.
func ReadIdentity(version, commit, date string) Identity {
	id := Identity{version, commit, date, runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok || id.Version != "" {
		return id
	}
	id.Version = strings.TrimPrefix(info.Main.Version, "v")
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			id.Commit = s.Value
		case s.Key == "vcs.time":
			id.Date = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-dirty"
		}
	}
	if id.Commit != "" {
		id.Commit += changed
	}
	return id
}

// String is what cobra's --version prints after "version"; what is not known
// is left out.
func (id Identity) String() string {
	version := id.Version
	if version == "" {
		version = "(devel)"
	}
	var more []string
	if id.Commit != "" {
		more = append(more, "commit "+id.Commit)
	}
	if id.Date != "" {
		more = append(more, id.Date)
	}
	return version + " (" + strings.Join(append(more, id.Go), ", ") + ")"
}
