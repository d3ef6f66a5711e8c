package property

import "strings"

type credential struct {
	ID   string
	Data []byte
}

var setCredentialSyntax = syntax{sig: "a(say)", parse: parseSetCredential, expected: `ID:DATA with the escapes of C, or nothing to reset the list`}

func parseSetCredential(_ *syntax, name, value string) ([]Property, bool) {
	return credentials(name, value, func(s string) ([]byte, bool) { return unescapeAll(s, true) })
}

var encryptedCredentialSyntax = syntax{sig: "a(say)", parse: parseEncryptedCredential, expected: "ID:BASE64, or nothing to reset the list"}

func parseEncryptedCredential(_ *syntax, name, value string) ([]Property, bool) {
	return credentials(name, value, decodeBase64)
}

func credentials(name, value string, read func(string) ([]byte, bool)) ([]Property, bool) {
	if value == "" {
		return one(name, []credential{}), true
	}
	id, rest, ok := strings.Cut(value, ":")
	if !ok || !credentialID(id) {
		return nil, false
	}
	data, ok := read(rest)
	return one(name, []credential{{id, data}}), ok
}

// credentialID accepts what can be the name of a file.
func credentialID(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.Contains(s, "/")
}

var loadCredentialSyntax = syntax{sig: "a(ss)", parse: parseLoadCredential, expected: "ID or ID:PATH, or nothing to reset the list"}

// parseLoadCredential takes an ID alone as one that the manager itself has.
func parseLoadCredential(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, []textPair{}), true
	}
	id, source, ok := strings.Cut(value, ":")
	if !ok {
		source = value
	}
	return one(name, []textPair{{id, source}}), source != "" && credentialID(id)
}

var importCredentialSyntax = syntax{sig: "as|a(ss)", parse: parseImportCredential, later: importCredentialSince, expected: "GLOB or GLOB:NAME, or nothing to reset the list"}

// importCredentialSince: a new name came with 257.
func importCredentialSince(value string) int {
	if strings.Contains(value, ":") {
		return 257
	}
	return 0
}

func parseImportCredential(_ *syntax, name, value string) ([]Property, bool) {
	name = strings.TrimSuffix(name, "Ex")
	glob, rename, renamed := strings.Cut(value, ":")
	switch {
	case value == "":
		return one(name, []string{}), true
	case renamed:
		return one(name+"Ex", []textPair{{glob, rename}}), glob != ""
	}
	return one(name, []string{value}), true
}

type environmentFile struct {
	Path     string
	Optional bool
}

var environmentFileSyntax = syntax{sig: "a(sb)", parse: parseEnvironmentFile, expected: `an absolute path, with "-" before it where it may be missing, or nothing to reset the list`}

func parseEnvironmentFile(_ *syntax, name, value string) ([]Property, bool) {
	name += "s"
	if value == "" {
		return one(name, []environmentFile{}), true
	}
	path, optional := strings.CutPrefix(value, "-")
	return one(name, []environmentFile{{path, optional}}), strings.HasPrefix(path, "/")
}

type label struct {
	Ignore bool
	Text   string
}

var labelSyntax = syntax{sig: "(bs)", parse: parseLabel, expected: `a label, with "-" before it where it may be missing`}

func parseLabel(_ *syntax, name, value string) ([]Property, bool) {
	text, ignore := strings.CutPrefix(value, "-")
	return one(name, label{ignore, text}), true
}

var standardSyntax = syntax{sig: "s", parse: parseStandard, later: standardSince, expected: "inherit, null, journal, file:PATH, append:PATH, truncate:PATH, fd:NAME and the like"}

func standardSince(value string) int {
	if strings.HasPrefix(value, "truncate:") {
		return 248
	}
	return 0
}

// parseStandard sends a value with an argument under a name of its own.
func parseStandard(_ *syntax, name, value string) ([]Property, bool) {
	kind, argument, ok := strings.Cut(value, ":")
	if ok {
		switch kind {
		case "fd":
			return one(name+"FileDescriptorName", argument), true
		case "file":
			return one(name+"File", argument), true
		case "append":
			return one(name+"FileToAppend", argument), true
		case "truncate":
			return one(name+"FileToTruncate", argument), true
		}
	}
	return one(name, value), true
}

var inputTextSyntax = syntax{sig: "ay", parse: parseInputText, expected: "a text with the escapes of C"}

// parseInputText sends the text as StandardInputData: no version accepts
// StandardInputText on the bus, whatever its systemd-run sends.
func parseInputText(_ *syntax, _, value string) ([]Property, bool) {
	data, ok := unescapeAll(value, false)
	return one("StandardInputData", append(data, '\n')), ok
}

var base64Syntax = syntax{sig: "ay", parse: parseBase64, expected: "base64"}

func parseBase64(_ *syntax, name, value string) ([]Property, bool) {
	data, ok := decodeBase64(value)
	return one(name, data), ok
}
