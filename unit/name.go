package unit

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/unitward/unitward/verify"
)

const (
	// MaxName is the longest job name in bytes: that of its unit has 255 at most
	// (systemd.unit(5)).
	MaxName = maxUnitName - len(".service")
	// maxCommand is how much of a command's name goes into a generated name.
	maxCommand = 40
)

// NameError says that a name cannot be a job's name. It matches ErrUsage.
type NameError struct {
	Name   string
	Reason string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("cannot use the name %q: %s", cut(e.Name, 60), e.Reason)
}

// Hint proposes the way out.
func (e *NameError) Hint() []string {
	for _, suffix := range []string{".timer", ".path", ".socket"} {
		if strings.HasSuffix(e.Name, suffix) {
			return []string{"what starts jobs is no job itself; systemctl has it (with --user where start had it): systemctl stop " + verify.Typed(cut(e.Name, maxUnitName))}
		}
	}
	return []string{fmt.Sprintf(`a name has 1 to %d characters of A-Z a-z 0-9 : _ . - \ (as in \xNN), may have "@" among them, and does not start with "." or "-"`, MaxName)}
}

// Is makes a NameError a usage error.
func (e *NameError) Is(target error) bool { return target == ErrUsage }

// MangleName makes a name of what a person has typed for one, as systemd does it for
// the names of units (systemd-run(1), systemctl(1)): "/" becomes "-", and what no name
// has \xNN. A path stays: it means a mount or a device there. What comes of it may still
// be no name.
func MangleName(s string) string {
	if strings.HasPrefix(s, "/") {
		return s
	}
	return escape(s, func(i int) bool { return isNameByte(s[i]) || s[i] == '@' || s[i] == '\\' })
}

// ParseName checks a job's name and returns it without the suffix of its
// unit: "foo" and "foo.service" both name job foo. A name is refused, never
// changed: see MangleName.
func ParseName(s string) (string, error) {
	name := strings.TrimSuffix(s, ".service")
	bad := func(format string, args ...any) (string, error) {
		return "", &NameError{Name: s, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case name == "":
		return bad("it is empty")
	case len(name) > MaxName:
		return bad("it has %d bytes, at most %d are allowed", len(name), MaxName)
	case name[0] == '/':
		return bad("it is a path, which names a mount or a device")
	case name[0] == '.' || name[0] == '-':
		return bad("it starts with %q", name[0])
	case strings.HasSuffix(name, ".service"):
		// As a name it would be read as that of another job.
		return bad("it ends with .service twice")
	}
	for _, suffix := range otherSuffixes {
		if strings.HasSuffix(name, suffix) {
			return bad("it ends with %s, which is another type of unit", suffix)
		}
	}
	if at := strings.IndexByte(name, '@'); at == 0 || at == len(name)-1 {
		return bad("it is that of a template, not of a unit: something is expected on both sides of \"@\"")
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; isNameByte(c) || c == '@' || c == '\\' {
			continue
		}
		r, size := utf8.DecodeRuneInString(name[i:])
		if size > 1 {
			return bad("it has the character %q", r)
		}
		return bad("it has the byte %s", strconv.Quote(name[i:i+1]))
	}
	return name, nil
}

// otherSuffixes are the unit types that are not a job's (systemd.unit(5)).
var otherSuffixes = [...]string{
	".scope", ".slice", ".socket", ".target", ".timer", ".path", ".mount", ".automount", ".swap", ".device",
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == ':' || c == '_' || c == '.' || c == '-'
}

// NewName returns unitward-COMMAND-RANDOM for a command and the random digits
// given. Bytes of the command that no name may have become "_".
func NewName(command, random string) string {
	base := command[strings.LastIndexByte(command, '/')+1:]
	safe := []byte(cut(base, maxCommand))
	for i, c := range safe {
		if !isNameByte(c) {
			safe[i] = '_'
		}
	}
	if len(safe) == 0 {
		safe = []byte("job")
	}
	return "unitward-" + string(safe) + "-" + random
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// SliceError says that a name cannot be a slice's. It matches ErrUsage.
type SliceError struct {
	Name   string
	Reason string
}

func (e *SliceError) Error() string {
	return fmt.Sprintf("cannot use the slice %q: %s", cut(e.Name, 60), e.Reason)
}

// Hint proposes the way out.
func (e *SliceError) Hint() []string {
	return []string{"a slice's name says where it is, with dashes between: a-b.slice is in a.slice (systemd.slice(5))"}
}

// Is makes a SliceError a usage error.
func (e *SliceError) Is(target error) bool { return target == ErrUsage }

// ParseSlice makes the name of a slice's unit of what was given for one, as systemd
// does it: "foo" and "foo.slice" are one, and see MangleName. The error is a
// *SliceError.
func ParseSlice(s string) (string, error) {
	bad := func(reason string) (string, error) { return "", &SliceError{s, reason} }
	name := MangleName(s)
	base, whole := strings.CutSuffix(name, ".slice")
	for _, suffix := range append(otherSuffixes[:], ".service") {
		if !whole && len(name) > len(suffix) && strings.HasSuffix(name, suffix) {
			return bad("it ends with " + suffix + ", which is another type of unit")
		}
	}
	switch {
	case base == "-":
		return "-.slice", nil
	case base == "":
		return bad("it is empty")
	case base[0] == '/':
		return bad("it is a path, which names a mount or a device")
	case len(base)+len(".slice") > maxUnitName:
		return bad("it is too long")
	case strings.Contains(base, "@"):
		return bad("a slice has no instances")
	case base[0] == '-' || base[len(base)-1] == '-' || strings.Contains(base, "--"):
		return bad("a part between dashes is empty")
	}
	return base + ".slice", nil
}

// maxUnitName is the longest name of a unit in bytes (systemd.unit(5)).
const maxUnitName = 255
