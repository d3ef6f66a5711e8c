package property

import (
	"slices"
	"strings"
)

type command struct {
	Path          string
	Args          []string
	IgnoreFailure bool
}

type commandEx struct {
	Path  string
	Args  []string
	Flags []string
}

var commandSyntax = syntax{
	sig: "a(sasb)|a(sasas)", parse: parseCommand, later: commandSince,
	expected: "a command line, with any of the prefixes of systemd.service(5), or nothing to reset the list",
}

// commandPrefixes are the letters that may stand before a command.
const commandPrefixes = "-@:+!|"

// commandSince: a shell as what runs the command came with 258.
func commandSince(value string) int {
	if strings.Contains(value[:len(value)-len(strings.TrimLeft(value, commandPrefixes))], "|") {
		return 258
	}
	return 0
}

// parseCommand sends a command with more than "-" and "@" before it under the
// name …Ex, which all versions have. The manager itself expands $VARIABLES.
func parseCommand(_ *syntax, name, value string) ([]Property, bool) {
	name = strings.TrimSuffix(name, "Ex")
	prefixes := value[:len(value)-len(strings.TrimLeft(value, commandPrefixes))]
	var flags []string
	for i, p := range prefixes {
		flag := ""
		switch p {
		case '-':
			flag = "ignore-failure"
		case ':':
			flag = "no-env-expand"
		case '+':
			flag = "privileged"
		case '!':
			// "!!" meant the same as nothing where the kernel has ambient
			// capabilities (4.3), and was removed in 258.
			if strings.Contains(prefixes[:i], "!") || strings.Contains(prefixes[i+1:], "!") {
				continue
			}
			flag = "no-setuid"
		case '|':
			flag = "via-shell"
		}
		if flag == "" {
			continue
		}
		if slices.Contains(flags, flag) {
			return nil, false
		}
		flags = append(flags, flag)
	}
	if slices.Contains(flags, "privileged") && strings.Contains(prefixes, "!") || strings.Count(prefixes, "!") > 2 {
		return nil, false
	}
	at, shell := strings.Count(prefixes, "@"), slices.Contains(flags, "via-shell")
	args, ok := words(value[len(prefixes):], unquote|unescape)
	if !ok || at > 1 || len(args) == 0 && prefixes != "" {
		return nil, false
	}
	path := ""
	switch {
	case shell:
		path = "/bin/sh"
		args = append([]string{strings.Repeat("-", at) + "sh"}, args...)
	case at == 1:
		path, args = args[0], args[1:]
	case len(args) > 0:
		path = args[0]
	}
	if at == 1 && len(args) == 0 {
		return nil, false
	}
	ignore := slices.Contains(flags, "ignore-failure")
	if len(flags) == 0 || ignore && len(flags) == 1 {
		all := []command{}
		if len(args) > 0 {
			all = append(all, command{path, args, ignore})
		}
		return one(name, all), true
	}
	return one(name+"Ex", []commandEx{{path, args, flags}}), true
}
