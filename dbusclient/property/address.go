package property

import (
	"net/netip"
	"strings"
)

// The numbers of the address families on Linux.
const (
	familyIPv4 = 2
	familyIPv6 = 10
)

type addressPrefix struct {
	Family int32
	Bytes  []byte
	Length uint32
}

var addressSyntax = syntax{
	sig: "a(iayu)", parse: parseAddresses,
	expected: "addresses such as 10.0.0.0/8 or ::1, any, localhost, link-local or multicast, or nothing to reset the list",
}

func parseAddresses(_ *syntax, name, value string) ([]Property, bool) {
	all := []addressPrefix{}
	for word := range strings.FieldsSeq(value) {
		for word := range strings.FieldsSeq(meaning(word)) {
			p, ok := parsePrefix(word)
			if !ok {
				return nil, false
			}
			all = append(all, p)
		}
	}
	return one(name, all), true
}

// meaning spells out the short names of systemd.resource-control(5).
func meaning(word string) string {
	switch word {
	case "any":
		return "0.0.0.0/0 ::/0"
	case "localhost":
		return "127.0.0.0/8 ::1/128"
	case "link-local":
		return "169.254.0.0/16 fe80::/64"
	case "multicast":
		return "224.0.0.0/4 ff00::/8"
	}
	return word
}

func parsePrefix(s string) (addressPrefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return addressPrefix{}, false
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	family := int32(familyIPv4)
	if p.Addr().Is6() {
		family = familyIPv6
	}
	return addressPrefix{family, p.Addr().AsSlice(), uint32(p.Bits())}, true
}

type portRange struct {
	Family   int32
	Protocol int32
	Count    uint16
	First    uint16
}

var socketBindSyntax = syntax{
	sig: "a(iiqq)", parse: parseSocketBind,
	expected: "[ipv4:|ipv6:][tcp:|udp:]PORTS such as tcp:8000-8010, or any, or nothing to reset the list",
}

func parseSocketBind(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, []portRange{}), true
	}
	var r portRange
	parts := strings.Split(value, ":")
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case part == "ipv4" && i == 0:
			r.Family = familyIPv4
		case part == "ipv6" && i == 0:
			r.Family = familyIPv6
		case part == "tcp" && r.Protocol == 0:
			r.Protocol = 6
		case part == "udp" && r.Protocol == 0:
			r.Protocol = 17
		case part == "any" && last:
		case last:
			first, end, isRange := strings.Cut(part, "-")
			if !isRange {
				end = first
			}
			a, ok := parseUnsigned(first, 16)
			b, ok2 := parseUnsigned(end, 16)
			if !ok || !ok2 || b < a || a == 0 {
				return nil, false
			}
			r.Count, r.First = uint16(b-a+1), uint16(a)
		default:
			return nil, false
		}
	}
	return one(name, []portRange{r}), true
}

type nftSet struct {
	Source     int32
	Protocol   int32
	Table, Set string
}

var nftSyntax = syntax{
	sig: "a(iiss)", parse: parseNFTSets,
	expected: "SOURCE:FAMILY:TABLE:SET such as cgroup:inet:filter:job, or nothing to reset the list",
}

func parseNFTSets(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	all := []nftSet{}
	for _, w := range ws {
		parts := strings.Split(w, ":")
		if len(parts) != 4 || parts[2] == "" || parts[3] == "" {
			return nil, false
		}
		source, family := nftSource(parts[0]), nftFamily(parts[1])
		if source == 0 || family == 0 {
			return nil, false
		}
		all = append(all, nftSet{source, family, parts[2], parts[3]})
	}
	return one(name, all), ok
}

// nftSource is systemd's own numbering.
func nftSource(s string) int32 {
	switch s {
	case "cgroup":
		return 3
	case "user":
		return 4
	case "group":
		return 5
	}
	return 0
}

// nftFamily is the kernel's NFPROTO_….
func nftFamily(s string) int32 {
	switch s {
	case "inet":
		return 1
	case "ip":
		return 2
	case "arp":
		return 3
	case "netdev":
		return 5
	case "bridge":
		return 7
	case "ip6":
		return 10
	}
	return 0
}
