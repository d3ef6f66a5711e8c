package property

import "strings"

type textPair struct{ First, Second string }

type pathNumber struct {
	Path  string
	Value uint64
}

var deviceAllowSyntax = syntax{
	sig: "a(ss)", parse: parseDeviceAllow,
	expected: `a device such as "/dev/null rw" or "char-pts rw", or nothing to reset the list`,
}

func parseDeviceAllow(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, []textPair{}), true
	}
	device, access, _ := strings.Cut(value, " ")
	access = strings.TrimLeft(access, whitespace)
	known := strings.HasPrefix(device, "/dev/") || strings.HasPrefix(device, "/run/systemd/inaccessible/") ||
		strings.HasPrefix(device, "char-") || strings.HasPrefix(device, "block-")
	return one(name, []textPair{{device, access}}), known && strings.Trim(access, "rwm") == ""
}

// perDevice reads "PATH VALUE".
func perDevice(name, value string, read func(string) (uint64, bool)) ([]Property, bool) {
	if value == "" {
		return one(name, []pathNumber{}), true
	}
	device, rest, ok := strings.Cut(value, " ")
	if !ok || !strings.HasPrefix(device, "/") {
		return nil, false
	}
	n, ok := read(strings.TrimLeft(rest, whitespace))
	return one(name, []pathNumber{{device, n}}), ok
}

var bandwidthSyntax = syntax{
	sig: "a(st)", parse: parseBandwidth,
	expected: `a path and a rate such as "/dev/sda 5M" (steps of 1000) or "/dev/sda infinity", or nothing to reset the list`,
}

func parseBandwidth(_ *syntax, name, value string) ([]Property, bool) {
	return perDevice(name, value, func(s string) (uint64, bool) {
		if s == "infinity" {
			return unset, true
		}
		n, ok := size(s, 1000)
		return n, ok && n > 0
	})
}

var deviceWeightSyntax = syntax{
	sig: "a(st)", parse: parseDeviceWeight,
	expected: `a path and a weight from 1 to 10000 such as "/dev/sda 200", or nothing to reset the list`,
}

func parseDeviceWeight(_ *syntax, name, value string) ([]Property, bool) {
	return perDevice(name, value, func(s string) (uint64, bool) {
		n, ok := parseUnsigned(s, 64)
		return n, ok && n >= 1 && n <= 10000
	})
}

var deviceLatencySyntax = syntax{
	sig: "a(st)", parse: parseDeviceLatency,
	expected: `a path and a time span such as "/dev/sda 25ms", or nothing to reset the list`,
}

func parseDeviceLatency(_ *syntax, name, value string) ([]Property, bool) {
	return perDevice(onBus(name), value, usec)
}

var bpfSyntax = syntax{
	sig: "a(ss)", parse: parseBPF,
	expected: "an attach type and a path such as egress:/sys/fs/bpf/prog, or nothing to reset the list",
}

func parseBPF(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, []textPair{}), true
	}
	kind, program, ok := strings.Cut(value, ":")
	return one(name, []textPair{{kind, program}}), ok && kind != "" && strings.HasPrefix(program, "/")
}

var filterPathSyntax = syntax{sig: "as", parse: parseFilterPath, expected: "the absolute path of a pinned BPF program, or nothing to reset the list"}

func parseFilterPath(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, []string{}), true
	}
	return one(name, []string{value}), value[0] == '/'
}

var delegateSyntax = syntax{
	sig: "b|as", parse: parseDelegate,
	expected: "yes, no, or controllers such as cpu memory pids",
}

func parseDelegate(_ *syntax, name, value string) ([]Property, bool) {
	if b, ok := Boolean(value); ok {
		return one(name, b), true
	}
	ws, ok := words(value, unquote)
	return one("DelegateControllers", ws), ok
}

// openFile is a file that the manager opens for the service.
type openFile struct {
	Path, Name string
	Flags      uint64
}

var openFileSyntax = syntax{
	sig: "a(sst)", parse: parseOpenFile,
	expected: "PATH[:NAME[:OPTIONS]] with the options graceful and one of read-only, append and truncate, divided by commas",
}

func parseOpenFile(_ *syntax, name, value string) ([]Property, bool) {
	// An empty list would reset nothing: 253 to 262 only add to it.
	var f openFile
	var options string
	l := lexer{rest: value}
	for _, p := range []*string{&f.Path, &f.Name, &options} {
		word, _, valid := l.next(":", single|unescape)
		if !valid {
			return nil, false
		}
		*p = word
	}
	if l.rest != "" || !strings.HasPrefix(f.Path, "/") {
		return nil, false
	}
	if f.Name == "" {
		f.Name = f.Path[strings.LastIndexByte(f.Path, '/')+1:]
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "":
		case "read-only":
			f.Flags |= 1
		case "append":
			f.Flags |= 2
		case "truncate":
			f.Flags |= 4
		case "graceful":
			f.Flags |= 8
		default:
			return nil, false
		}
	}
	how := f.Flags & 7
	return one(name, []openFile{f}), how&(how-1) == 0
}
