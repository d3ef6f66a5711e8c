package property

// cgroupTable has the settings of systemd.resource-control(5), but for those
// of cgroup v1.
var cgroupTable = [...]entry{
	{"AllowedCPUs", &cpuSetSyntax, 0},
	{"AllowedMemoryNodes", &cpuSetSyntax, 0},
	{"BPFProgram", &bpfSyntax, 249},
	{"BindNetworkInterface", &textSyntax, 260},
	{"CPUAccounting", &booleanSyntax, 0},
	{"CPUPressureThresholdSec", &spanSyntax, 261},
	{"CPUPressureWatch", &pressureWatchSyntax, 261},
	{"CPUQuota", &cpuQuotaSyntax, 0},
	{"CPUQuotaPeriodSec", &spanOrNoneSyntax, 0},
	{"CPUSetPartition", &cpuPartitionSyntax, 261},
	{"CPUWeight", &cpuWeightSyntax, 0},
	{"CoredumpReceive", &booleanSyntax, 255},
	{"Delegate", &delegateSyntax, 0},
	{"DelegateSubgroup", &textSyntax, 254},
	{"DeviceAllow", &deviceAllowSyntax, 0},
	{"DevicePolicy", &devicePolicySyntax, 0},
	{"DisableControllers", &wordsSyntax, 0},
	{"IOAccounting", &booleanSyntax, 0},
	{"IODeviceLatencyTargetSec", &deviceLatencySyntax, 0},
	{"IODeviceWeight", &deviceWeightSyntax, 0},
	{"IOPressureThresholdSec", &spanSyntax, 261},
	{"IOPressureWatch", &pressureWatchSyntax, 261},
	{"IOReadBandwidthMax", &bandwidthSyntax, 0},
	{"IOReadIOPSMax", &bandwidthSyntax, 0},
	{"IOWeight", &weightSyntax, 0},
	{"IOWriteBandwidthMax", &bandwidthSyntax, 0},
	{"IOWriteIOPSMax", &bandwidthSyntax, 0},
	{"IPAccounting", &booleanSyntax, 0},
	{"IPAddressAllow", &addressSyntax, 0},
	{"IPAddressDeny", &addressSyntax, 0},
	{"IPEgressFilterPath", &filterPathSyntax, 0},
	{"IPIngressFilterPath", &filterPathSyntax, 0},
	{"ManagedOOMMemoryPressure", &oomManagedSyntax, 0},
	{"ManagedOOMMemoryPressureDurationSec", &spanOrNoneSyntax, 257},
	// 247 has a ManagedOOMMemoryPressureLimitPercent instead.
	{"ManagedOOMMemoryPressureLimit", &shareSyntax, 248},
	{"ManagedOOMPreference", &oomPreferenceSyntax, 248},
	{"ManagedOOMSwap", &oomManagedSyntax, 0},
	{"MemoryAccounting", &booleanSyntax, 0},
	{"MemoryHigh", &memorySyntax, 0},
	{"MemoryLow", &memorySyntax, 0},
	{"MemoryMax", &memorySyntax, 0},
	{"MemoryMin", &memorySyntax, 0},
	{"MemoryPressureThresholdSec", &spanSyntax, 254},
	{"MemoryPressureWatch", &pressureWatchSyntax, 254},
	{"MemorySwapMax", &memorySyntax, 0},
	{"MemoryZSwapMax", &memorySyntax, 253},
	{"MemoryZSwapWriteback", &booleanSyntax, 256},
	{"NFTSet", &nftSyntax, 255},
	{"OOMRules", &wordsSyntax, 261},
	{"Slice", &sliceSyntax, 0},
	{"SocketBindAllow", &socketBindSyntax, 249},
	{"SocketBindDeny", &socketBindSyntax, 249},
	{"StartupAllowedCPUs", &cpuSetSyntax, 250},
	{"StartupAllowedMemoryNodes", &cpuSetSyntax, 250},
	{"StartupCPUWeight", &cpuWeightSyntax, 0},
	{"StartupIOWeight", &weightSyntax, 0},
	{"TasksAccounting", &booleanSyntax, 0},
	{"TasksMax", &tasksSyntax, 0},
}

var (
	devicePolicySyntax  = syntax{sig: "s", parse: parseChoice, words: "auto closed strict"}
	oomManagedSyntax    = syntax{sig: "s", parse: parseChoice, words: "auto kill"}
	oomPreferenceSyntax = syntax{sig: "s", parse: parseChoice, words: "none avoid omit"}
	pressureWatchSyntax = syntax{sig: "s", parse: parseChoice, words: "auto skip", boolean: true, reset: true}
	cpuPartitionSyntax  = syntax{sig: "s", parse: parseChoice, words: "member root isolated", reset: true}
)
