package property

import "strings"

// similar returns the known name that was probably meant: the replacement of
// a name that is gone, the unit-file name of a D-Bus name, the same letters in
// other case, or the nearest by edit distance.
func similar(name string) string {
	if s := replaced(name); s != "" {
		return s
	}
	if base, ok := strings.CutSuffix(name, "USec"); ok {
		if s, _ := lookup(base + "Sec"); s != nil {
			return base + "Sec"
		}
	}
	best, at := "", len(name)/4+2
	for known := range names {
		if strings.EqualFold(known, name) {
			return known
		}
		if d := distance(name, known, at); d < at {
			best, at = known, d
		}
	}
	return best
}

// replaced knows what took the place of the settings of cgroup v1, which 258
// removed and which never worked on the unified hierarchy.
func replaced(name string) string {
	switch name {
	case "MemoryLimit":
		return "MemoryMax"
	case "CPUShares":
		return "CPUWeight"
	case "StartupCPUShares":
		return "StartupCPUWeight"
	case "BlockIOAccounting":
		return "IOAccounting"
	case "BlockIOWeight":
		return "IOWeight"
	case "StartupBlockIOWeight":
		return "StartupIOWeight"
	case "BlockIODeviceWeight":
		return "IODeviceWeight"
	case "BlockIOReadBandwidth":
		return "IOReadBandwidthMax"
	case "BlockIOWriteBandwidth":
		return "IOWriteBandwidthMax"
	case "CPUQuotaPerSecUSec":
		return "CPUQuota"
	case "EnvironmentFiles":
		return "EnvironmentFile"
	case "DelegateControllers":
		return "Delegate"
	case "StartLimitInterval":
		return "StartLimitIntervalSec"
	}
	return ""
}

// distance is the number of single-letter edits between a and b, or limit
// where it is not less.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > 64 {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
