package unit

import (
	"strconv"
	"strings"
)

// AppIDError says that something cannot be part of an application's unit name.
// It matches ErrUsage.
type AppIDError struct {
	// What is "application id" or "launcher".
	What, Value, Reason string
}

func (e *AppIDError) Error() string {
	return "cannot use the " + e.What + " " + strconv.Quote(cut(e.Value, 60)) + ": " + e.Reason
}

// Hint proposes the way out.
func (e *AppIDError) Hint() []string {
	return []string{"an id is the name of a desktop file without .desktop, such as org.example.Editor; a launcher is the name of who starts it, such as gnome"}
}

// Is makes an AppIDError a usage error.
func (e *AppIDError) Is(target error) bool { return target == ErrUsage }

// AppName is the name of a job that is an instance of an application, by the
// convention of desktops ("Desktop Environments" in systemd's documentation):
// app[-LAUNCHER]-APPID@RANDOM for a service and app[-LAUNCHER]-APPID-RANDOM for
// a scope. launcher may be empty. id and launcher are escaped as by
// systemd-escape(1), and id is cut, between escapes, where the name would be
// longer than MaxName. The error is an *AppIDError.
func AppName(id, launcher, random string, scope bool) (string, error) {
	for _, c := range []struct{ what, value string }{{"application id", id}, {"launcher", launcher}} {
		switch {
		case c.value == "" && c.what == "application id":
			return "", &AppIDError{c.what, c.value, "it is empty"}
		case strings.ContainsAny(c.value, "/\x00"):
			return "", &AppIDError{c.what, c.value, "it has a slash or a NUL"}
		}
	}
	before, after := "app-", "@"+random
	if launcher != "" {
		before += EscapeName(launcher) + "-"
	}
	if scope {
		after = "-" + random
	}
	room := MaxName - len(before) - len(after)
	if room < 1 {
		return "", &AppIDError{"launcher", launcher, "it is too long"}
	}
	return before + cutEscaped(EscapeName(id), room) + after, nil
}

// EscapeName escapes a text for a unit's name as systemd-escape(1) does: what is
// not of A-Z a-z 0-9 : _ . becomes \xNN, a "." that comes first too, and "/"
// becomes "-".
func EscapeName(s string) string {
	return escape(s, func(i int) bool { return s[i] != '-' && isNameByte(s[i]) && (s[i] != '.' || i > 0) })
}

// escape writes "/" as "-", and every other byte that may not stay as \xNN.
func escape(s string, stays func(i int) bool) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '/':
			b.WriteByte('-')
		case stays(i):
			b.WriteByte(c)
		default:
			b.WriteString(`\x`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// cutEscaped cuts an escaped text to n bytes, and never an escape in two.
func cutEscaped(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := 1; back <= 3 && back <= n; back++ {
		if s[n-back] == '\\' {
			return s[:n-back]
		}
	}
	return s[:n]
}
