package launch

import (
	"slices"
	"strings"

	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
)

// hiding are the properties that take paths, or the right to write there, from
// what runs in a unit (systemd.exec(5), "Paths" and "Sandboxing").
var hiding = [...]string{
	"InaccessibleDirectories", "InaccessiblePaths", "PrivateTmp", "ProtectHome", "ProtectSystem",
	"ReadOnlyDirectories", "ReadOnlyPaths", "TemporaryFileSystem",
}

// reachable adds to the properties of a unit in which this program runs, too,
// what that needs in a sandbox: the job's own directory and that of what is
// handed over, to write in, and the program itself. What a job is kept from
// otherwise stays hidden.
func reachable(s *unit.Spec, props []property.Property, jobDir, handover, self string) ([]property.Property, error) {
	if !slices.ContainsFunc(s.Properties, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return slices.Contains(hiding[:], name)
	}) {
		return props, nil
	}
	for _, b := range []struct {
		name  string
		paths []string
	}{{"BindPaths", []string{jobDir, handover}}, {"BindReadOnlyPaths", []string{self}}} {
		var quoted []string
		for _, path := range b.paths {
			quoted = append(quoted, bindPath(path))
		}
		ps, err := property.Convert(b.name, strings.Join(quoted, " "))
		if err != nil {
			return nil, err
		}
		props = append(props, ps...)
	}
	return props, nil
}

// bindPath is a path as one word of BindPaths=, in which a colon divides.
func bindPath(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if strings.IndexByte(`\:"' `+"\t\n\r", path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}
