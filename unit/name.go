package unit

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/unitward/unitward/verify"
)

const (
	// MaxName is the longest job name in bytes. Unit names end at 255 bytes
	// (systemd.unit(5)); the rest is room for suffixes of ours.
	MaxName = 200
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
	return []string{`a name has 1 to 200 characters of A-Z a-z 0-9 : _ . - (and \xNN escapes), may have one "@" among them, and does not start with "." or "-"`}
}

// Is makes a NameError a usage error.
func (e *NameError) Is(target error) bool { return target == ErrUsage }

// ParseName checks a job's name and returns it without the suffix of its
// unit: "foo" and "foo.service" both name job foo. A name is refused, never
// changed, so that what the user typed is what systemctl shows.
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
	for i, at := 0, 0; i < len(name); i++ {
		switch c := name[i]; {
		case isNameByte(c):
		case c == '@' && at == 0:
			at++ // of an instance (systemd.unit(5))
		case c == '\\' && i+3 < len(name) && name[i+1] == 'x' && isHex(name[i+2]) && isHex(name[i+3]):
			i += 3
		default:
			r, size := utf8.DecodeRuneInString(name[i:])
			if size > 1 {
				return bad("it has the character %q", r)
			}
			return bad("it has the byte %s", strconv.Quote(name[i:i+1]))
		}
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

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
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

// ParseSlice checks a slice's name and returns it as that of its unit: "foo" and
// "foo.slice" are one. The error is a *SliceError.
func ParseSlice(s string) (string, error) {
	name := strings.TrimSuffix(s, ".slice")
	bad := func(reason string) (string, error) { return "", &SliceError{s, reason} }
	switch {
	case name == "-":
		return "-.slice", nil
	case name == "":
		return bad("it is empty")
	case len(name)+len(".slice") > maxUnitName:
		return bad("it is too long")
	case name[0] == '-' || name[len(name)-1] == '-' || strings.Contains(name, "--"):
		return bad("a part between dashes is empty")
	}
	for _, suffix := range append(otherSuffixes[:], ".service") {
		if strings.HasSuffix(name, suffix) {
			return bad("it ends with " + suffix + ", which is another type of unit")
		}
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; !isNameByte(c) && c != '\\' {
			return bad("it has the byte " + strconv.Quote(name[i:i+1]))
		}
	}
	return name + ".slice", nil
}

// maxUnitName is the longest name of a unit in bytes (systemd.unit(5)).
const maxUnitName = 255
