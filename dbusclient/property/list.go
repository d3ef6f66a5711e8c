package property

import (
	"path"
	"strings"
)

var wordsSyntax = syntax{sig: "as", parse: parseWords, expected: "words with balanced quotes, or nothing to reset the list"}

func parseWords(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	return one(name, ws), ok
}

var escapedWordsSyntax = syntax{sig: "as", parse: parseEscapedWords, expected: "words with balanced quotes and valid escapes, or nothing to reset the list"}

func parseEscapedWords(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote|unescape)
	return one(name, ws), ok
}

var pathsSyntax = syntax{sig: "as", parse: parsePaths, expected: `absolute paths, with "-" before one that may be missing, or nothing to reset the list`}

// parsePaths accepts "-" (may be missing) and "+" (below the service's root)
// before each path.
func parsePaths(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	for _, w := range ws {
		w = strings.TrimPrefix(strings.TrimPrefix(w, "-"), "+")
		ok = ok && strings.HasPrefix(w, "/")
	}
	return one(name, ws), ok
}

var searchPathSyntax = syntax{sig: "as", parse: parseSearchPath, expected: "absolute paths divided by colons or spaces, or nothing to reset the list"}

func parseSearchPath(_ *syntax, name, value string) ([]Property, bool) {
	all := []string{}
	l := lexer{rest: value}
	for {
		w, found, valid := l.next(":"+whitespace, unquote)
		if !valid || !found {
			return one(name, all), valid
		}
		if !strings.HasPrefix(w, "/") {
			return nil, false
		}
		all = append(all, w)
	}
}

// filter is an allow list, or with "~" before it a deny list.
type filter struct {
	Allow bool
	Names []string
}

var filterSyntax = syntax{sig: "(bas)", parse: parseFilter, expected: `names with balanced quotes, with "~" before them to deny these only`}

func parseFilter(_ *syntax, name, value string) ([]Property, bool) {
	rest, deny := strings.CutPrefix(value, "~")
	ws, ok := words(rest, unquote)
	// An allow list of nothing is a reset to some versions, and to others the
	// order to deny all; a deny list of nothing is a reset to every one.
	return one(name, filter{Allow: !deny && len(ws) > 0, Names: ws}), ok
}

// "none" does not go over the bus: 247 to 262 refuse the word, and the empty
// allow list that it stands for resets the setting in 247.
var familiesSyntax = syntax{
	sig: "(bas)", parse: parseFamilies,
	expected: `families such as AF_UNIX AF_INET, with "~" before them to deny these only, or nothing to reset the list`,
}

func parseFamilies(s *syntax, name, value string) ([]Property, bool) {
	ws, _ := words(strings.TrimPrefix(value, "~"), unquote)
	for _, w := range ws {
		if !strings.HasPrefix(w, "AF_") || strings.Contains(w, ",") {
			return nil, false
		}
	}
	return parseFilter(s, name, value)
}

// pattern has Allow in a log filter; in RefreshOnReload= it is "not this one".
type pattern struct {
	Flag bool
	Text string
}

var logFilterSyntax = syntax{sig: "a(bs)", parse: parseLogFilter, expected: `a regular expression, with "~" before it to drop what matches`}

func parseLogFilter(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, []pattern{}), true
	}
	rest, drop := strings.CutPrefix(value, "~")
	return one(name, []pattern{{Flag: !drop, Text: rest}}), true
}

var refreshSyntax = syntax{sig: "a(bs)", parse: parseRefresh, expected: `extensions or credentials, with "~" before them for the other`}

func parseRefresh(_ *syntax, name, value string) ([]Property, bool) {
	rest, invert := strings.CutPrefix(value, "~")
	ws, ok := words(rest, 0)
	all := []pattern{}
	for _, w := range ws {
		ok = ok && (w == "extensions" || w == "credentials")
		all = append(all, pattern{Flag: invert, Text: w})
	}
	return one(name, all), ok
}

var logFieldSyntax = syntax{sig: "aay", parse: parseLogField, expected: "one journal field as FIELD=VALUE"}

func parseLogField(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, [][]byte{}), true
	}
	field, _, ok := strings.Cut(value, "=")
	for i := range len(field) {
		c := field[i]
		ok = ok && (c >= 'A' && c <= 'Z' || c == '_' && i > 0 || c >= '0' && c <= '9' && i > 0)
	}
	return one(name, [][]byte{[]byte(value)}), ok && field != ""
}

var relativeSyntax = syntax{sig: "as", parse: parseRelative, expected: "relative directories, or nothing to reset the list"}

func parseRelative(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	for i, w := range ws {
		ok = ok && relative(w)
		ws[i] = path.Clean(w)
	}
	return one(name, ws), ok
}

// link is a directory with the name of a symbolic link to it. Flag 1 makes it
// read-only.
type link struct {
	Source, Name string
	Flags        uint64
}

var directorySyntax = syntax{
	sig: "as|a(sst)", parse: parseDirectory, later: directorySince,
	expected: `relative directories, each as NAME, NAME:LINK or NAME:LINK:ro, or nothing to reset the list`,
}

// directorySince: links came with 250, read-only directories with 257.
func directorySince(value string) int {
	since := 0
	ws, _ := words(value, unquote)
	for _, w := range ws {
		_, rest, _ := strings.Cut(w, ":")
		_, flags, _ := strings.Cut(rest, ":")
		switch {
		case flags != "":
			return 257
		case rest != "" && rest != ":":
			since = 250
		}
	}
	return since
}

func parseDirectory(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	plain, links := []string{}, []link{}
	for _, w := range ws {
		source, rest, _ := strings.Cut(w, ":")
		target, flags, _ := strings.Cut(rest, ":")
		if !relative(source) || target != "" && !relative(target) || flags != "" && flags != "ro" {
			return nil, false
		}
		switch {
		case rest == "" || rest == ":":
			plain = append(plain, path.Clean(source))
		case flags == "ro":
			links = append(links, link{path.Clean(source), clean(target), 1})
		default:
			links = append(links, link{path.Clean(source), clean(target), 0})
		}
	}
	var ps []Property
	if len(plain) > 0 || len(links) == 0 {
		ps = one(name, plain)
	}
	if len(links) > 0 {
		ps = append(ps, one(name+"Symlink", links)...)
	}
	return ps, ok
}

// relative says that a path stays below the directory it is in.
func relative(p string) bool {
	return p != "" && p[0] != '/' && !strings.Contains("/"+p+"/", "/../")
}

// clean is path.Clean but for the empty path, which stays empty.
func clean(p string) string {
	if p == "" {
		return ""
	}
	return path.Clean(p)
}
