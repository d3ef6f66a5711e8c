package unit

import "strings"

// IsOwnerUnit reports whether s is the name, with its suffix, of a unit of a type
// that can have processes, and so can be what a job ends with (systemd.unit(5)).
func IsOwnerUnit(s string) bool {
	stem, suffix, ok := cutLast(s, '.')
	if !ok || stem == "" || stem[0] == '@' || len(s) > maxUnitName {
		return false
	}
	for i := 0; i < len(stem); i++ {
		if c := stem[i]; !isNameByte(c) && c != '@' && c != '\\' {
			return false
		}
	}
	switch suffix {
	case "service", "scope", "slice", "socket", "mount", "swap":
		return true
	}
	return false
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
