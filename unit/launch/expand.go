package launch

import (
	"strings"

	"github.com/unitward/unitward/dbusclient/property"
)

// Expand replaces variables in arguments as a service manager does
// (systemd.service(5), "Command lines"): ${NAME} anywhere by the value, $NAME
// that is a whole argument by the words of the value, which may be none, and $$
// by one "$". A variable that is not in env has no value. Of the last of two
// with one name the value counts.
func Expand(argv, env []string) []string {
	var out []string
	for _, a := range argv {
		if len(a) > 0 && a[0] == '$' && (len(a) == 1 || a[1] != '{' && a[1] != '$') {
			value, _ := last(env, a[1:])
			out = append(out, property.Words(value)...)
			continue
		}
		out = append(out, braces(a, env))
	}
	return out
}

// braces replaces ${NAME} and $$. What is not closed stays, and what has more than a
// name, such as ${NAME:-WORD}.
func braces(a string, env []string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(a, "$")
		b.WriteString(before)
		switch {
		case !found:
			return b.String()
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			a = after[1:]
			continue
		case strings.HasPrefix(after, "{"):
			end := strings.IndexAny(after, ":}")
			switch {
			case end < 0:
				b.WriteString("$" + after)
				return b.String()
			case after[end] == ':':
				b.WriteString("$" + after[:end+1])
			default:
				value, _ := last(env, after[1:end])
				b.WriteString(value)
			}
			a = after[end+1:]
			continue
		}
		b.WriteByte('$')
		a = after
	}
}

// last is the value that counts of a variable.
func last(env []string, name string) (value string, ok bool) {
	if name == "" {
		return "", false
	}
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}
