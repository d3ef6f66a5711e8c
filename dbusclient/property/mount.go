package property

import (
	"encoding/hex"
	"strings"
)

// recursive is MS_REC: mounts below the source come with it.
const recursive = 1 << 14

type bindPath struct {
	Source, Target string
	Optional       bool
	Flags          uint64
}

var bindPathsSyntax = syntax{
	sig: "a(ssbt)", parse: parseBindPaths,
	expected: `absolute paths, each as SOURCE[:TARGET[:rbind|norbind]] with "-" before one that may be missing, or nothing to reset the list`,
}

func parseBindPaths(_ *syntax, name, value string) ([]Property, bool) {
	all := []bindPath{}
	l := lexer{rest: value}
	for {
		l.rest = strings.TrimLeft(l.rest, whitespace)
		if l.rest == "" {
			return one(name, all), true
		}
		source, _, valid := l.next(":"+whitespace, unquote|single)
		if !valid {
			return nil, false
		}
		var b bindPath
		b.Source, b.Optional = strings.CutPrefix(source, "-")
		b.Target, b.Flags = b.Source, recursive
		if l.sep == ':' {
			if b.Target, _, valid = l.next(":"+whitespace, unquote|single); !valid {
				return nil, false
			}
		}
		if l.sep == ':' {
			options, _, valid := l.next(whitespace, unquote|single)
			switch {
			case !valid:
				return nil, false
			case options == "norbind":
				b.Flags = 0
			case options != "" && options != "rbind":
				return nil, false
			}
		}
		if !strings.HasPrefix(b.Source, "/") || !strings.HasPrefix(b.Target, "/") {
			return nil, false
		}
		all = append(all, b)
	}
}

var temporaryFileSystemSyntax = syntax{
	sig: "a(ss)", parse: parseTemporaryFileSystem,
	expected: "absolute paths, each as PATH[:OPTIONS] such as /var:ro,size=1M, or nothing to reset the list",
}

func parseTemporaryFileSystem(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	all := []textPair{}
	for _, w := range ws {
		path, options, _ := strings.Cut(w, ":")
		if !strings.HasPrefix(path, "/") {
			return nil, false
		}
		all = append(all, textPair{path, options})
	}
	return one(name, all), ok
}

type mountImage struct {
	Source, Target string
	Optional       bool
	Options        []textPair
}

type extensionImage struct {
	Source   string
	Optional bool
	Options  []textPair
}

var mountImagesSyntax = syntax{
	sig: "a(ssba(ss))", parse: parseMountImages,
	expected: `images, each as IMAGE:TARGET[:PARTITION:OPTIONS…], or nothing to reset the list`,
}

func parseMountImages(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote|keepBackslash)
	all := []mountImage{}
	for _, w := range ws {
		parts, ok := colons(w)
		if !ok || len(parts) < 2 {
			return nil, false
		}
		source, optional := strings.CutPrefix(parts[0], "-")
		if !strings.HasPrefix(source, "/") || !strings.HasPrefix(parts[1], "/") {
			return nil, false
		}
		all = append(all, mountImage{source, parts[1], optional, partitions(parts[2:])})
	}
	return one(name, all), ok
}

var extensionImagesSyntax = syntax{
	sig: "a(sba(ss))", parse: parseExtensionImages,
	expected: `images, each as IMAGE[:PARTITION:OPTIONS…], or nothing to reset the list`,
}

func parseExtensionImages(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote|keepBackslash)
	all := []extensionImage{}
	for _, w := range ws {
		parts, ok := colons(w)
		if !ok || len(parts) == 0 {
			return nil, false
		}
		source, optional := strings.CutPrefix(parts[0], "-")
		if !strings.HasPrefix(source, "/") {
			return nil, false
		}
		all = append(all, extensionImage{source, optional, partitions(parts[1:])})
	}
	return one(name, all), ok
}

var imageOptionsSyntax = syntax{
	sig: "a(ss)", parse: parseImageOptions,
	expected: "mount options, each as OPTIONS or PARTITION:OPTIONS, or nothing to reset the list",
}

func parseImageOptions(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote|keepBackslash)
	all := []textPair{}
	for _, w := range ws {
		parts, ok := colons(w)
		if !ok || len(parts) > 2 || len(parts) == 0 {
			return nil, false
		}
		all = append(all, partitions(parts)...)
	}
	return one(name, all), ok
}

// colons splits at colons that no backslash protects.
func colons(s string) ([]string, bool) {
	var all []string
	l := lexer{rest: s}
	for {
		word, found, valid := l.next(":", unescape|unescapeSeparator)
		if !valid || !found {
			return all, valid
		}
		all = append(all, word)
	}
}

// partitions pairs the names of partitions with their mount options; options
// alone are those of the root partition.
func partitions(parts []string) []textPair {
	all := []textPair{}
	for len(parts) > 1 {
		all = append(all, textPair{parts[0], parts[1]})
		parts = parts[2:]
	}
	if len(parts) == 1 {
		all = append(all, textPair{"root", parts[0]})
	}
	return all
}

var rootHashSyntax = syntax{sig: "ay|s", parse: parseRootHash, expected: "an absolute path, or a hash of at least 32 hexadecimal digits"}

func parseRootHash(_ *syntax, name, value string) ([]Property, bool) {
	if strings.HasPrefix(value, "/") {
		return one(name+"Path", value), true
	}
	hash, err := hex.DecodeString(value)
	return one(name, hash), err == nil && len(hash) >= 16
}

var rootHashSignatureSyntax = syntax{sig: "ay|s", parse: parseRootHashSignature, expected: "an absolute path, or base64:DATA"}

func parseRootHashSignature(_ *syntax, name, value string) ([]Property, bool) {
	if strings.HasPrefix(value, "/") {
		return one(name+"Path", value), true
	}
	data, ok := strings.CutPrefix(value, "base64:")
	if !ok {
		return nil, false
	}
	signature, ok := decodeBase64(data)
	return one(name, signature), ok
}
