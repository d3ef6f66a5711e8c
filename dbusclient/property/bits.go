package property

import (
	"math"
	"strconv"
	"strings"
)

// The capabilities by number (capabilities(7)).
const capabilityNames = "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap " +
	"linux_immutable net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio " +
	"sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease " +
	"audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon " +
	"bpf checkpoint_restore"

var capabilitySyntax = syntax{
	sig: "t", parse: parseCapabilities,
	expected: `capabilities such as CAP_NET_ADMIN CAP_SYS_PTRACE, with "~" before them for all others`,
}

// parseCapabilities refuses names it does not know: systemd would drop them
// without a word, and the set would be another one.
func parseCapabilities(_ *syntax, name, value string) ([]Property, bool) {
	rest, invert := strings.CutPrefix(value, "~")
	ws, ok := words(rest, unquote)
	var set uint64
	for _, w := range ws {
		n, known := capability(strings.ToLower(w))
		if !known {
			return nil, false
		}
		set |= 1 << n
	}
	if invert {
		set = ^set
	}
	return one(name, set), ok
}

func capability(s string) (int32, bool) {
	if name, ok := strings.CutPrefix(s, "cap_"); ok {
		return named(capabilityNames, name, -1)
	}
	// By number, too; 62 is the highest that systemd's set can hold.
	return named("", s, 62)
}

var secureBitsSyntax = syntax{
	sig: "i", parse: parseSecureBits,
	expected: "keep-caps, keep-caps-locked, no-setuid-fixup, no-setuid-fixup-locked, noroot, noroot-locked, or nothing",
}

func parseSecureBits(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	var set int32
	for _, w := range ws {
		n, known := named("noroot noroot-locked no-setuid-fixup no-setuid-fixup-locked keep-caps keep-caps-locked", w, -1)
		if !known {
			return nil, false
		}
		set |= 1 << n
	}
	return one(name, set), ok
}

// The CLONE_NEW… flags. The systemd-run of 247 to 257 leaves the time namespace
// out of "all others"; their managers take it, and 262 would miss it.
const (
	newMount  = 0x00020000
	newCgroup = 0x02000000
	newUTS    = 0x04000000
	newIPC    = 0x08000000
	newUser   = 0x10000000
	newPID    = 0x20000000
	newNet    = 0x40000000
	newTime   = 0x00000080

	allNamespaces = newMount | newCgroup | newUTS | newIPC | newUser | newPID | newNet | newTime
)

var namespacesSyntax = syntax{
	sig: "t", parse: parseNamespaces,
	expected: `yes, no, or namespaces such as net pid user, with "~" before them for all others`,
}

// parseNamespaces serves RestrictNamespaces=, which on the bus holds the
// namespaces that stay allowed, and DelegateNamespaces= (since 258), which
// holds those that are delegated.
func parseNamespaces(_ *syntax, name, value string) ([]Property, bool) {
	restrict := name == "RestrictNamespaces"
	all := uint64(allNamespaces)
	if !restrict {
		all &^= newUser // delegation implies one
	}
	if b, ok := Boolean(value); ok {
		if b == restrict {
			return one(name, uint64(0)), true
		}
		return one(name, all), true
	}
	rest, invert := strings.CutPrefix(value, "~")
	ws, ok := words(rest, unquote)
	var set uint64
	for _, w := range ws {
		n := namespace(w)
		if n == 0 {
			return nil, false
		}
		set |= n
	}
	if invert {
		set = all &^ set
	}
	return one(name, set), ok
}

func namespace(s string) uint64 {
	switch s {
	case "cgroup":
		return newCgroup
	case "ipc":
		return newIPC
	case "net":
		return newNet
	case "mnt":
		return newMount
	case "pid":
		return newPID
	case "user":
		return newUser
	case "uts":
		return newUTS
	case "time":
		return newTime
	}
	return 0
}

const coredumpWords = "private-anonymous shared-anonymous private-file-backed shared-file-backed elf-headers " +
	"private-huge shared-huge private-dax shared-dax"

var coredumpSyntax = syntax{
	sig: "t", parse: parseCoredumpFilter,
	expected: "mappings (" + coredumpWords + "), default, all, or a hexadecimal mask",
}

func parseCoredumpFilter(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, 0)
	var set uint64
	for _, w := range ws {
		if w == "default" { // the kernel's 0x33, core(5)
			set |= 1<<0 | 1<<1 | 1<<4 | 1<<5
			continue
		}
		if w == "all" { // the kernel refuses more than 32 bits
			set |= math.MaxUint32
			continue
		}
		n, known := named(coredumpWords, w, -1)
		if known {
			set |= 1 << n
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimPrefix(w, "0x"), 16, 64)
		if err != nil {
			return nil, false
		}
		set |= mask
	}
	return one(name, set), ok
}

var mountFlagsSyntax = syntax{sig: "t", parse: parseMountFlags, expected: "shared, slave, private, or nothing for the default"}

func parseMountFlags(_ *syntax, name, value string) ([]Property, bool) {
	switch value {
	case "":
		return one(name, uint64(0)), true
	case "shared":
		return one(name, uint64(1<<20)), true
	case "slave":
		return one(name, uint64(1<<19)), true
	case "private":
		return one(name, uint64(1<<18)), true
	}
	return nil, false
}

var cpuSetSyntax = syntax{sig: "ay", parse: parseCPUSet, expected: "numbers and ranges such as 0-3,6, or nothing for no restriction"}

func parseCPUSet(_ *syntax, name, value string) ([]Property, bool) {
	set := []byte{}
	l := lexer{rest: value}
	for {
		w, found, valid := l.next(whitespace+",", unquote)
		if !valid || !found {
			return one(name, set), valid
		}
		first, last, isRange := strings.Cut(w, "-")
		if !isRange {
			last = first
		}
		a, ok := parseUnsigned(first, 16)
		b, ok2 := parseUnsigned(last, 16)
		if !ok || !ok2 || a > b || b >= 8192 { // systemd's own bound
			return nil, false
		}
		for cpu := a; cpu <= b; cpu++ {
			for uint64(len(set)) <= cpu/8 {
				set = append(set, 0)
			}
			set[cpu/8] |= 1 << (cpu % 8)
		}
	}
}

var cpuAffinitySyntax = syntax{sig: "ay|b", parse: parseCPUAffinity, expected: "numbers and ranges such as 0-3,6, numa, or nothing for no restriction"}

func parseCPUAffinity(s *syntax, name, value string) ([]Property, bool) {
	if value == "numa" {
		return one("CPUAffinityFromNUMA", true), true
	}
	return parseCPUSet(s, name, value)
}
