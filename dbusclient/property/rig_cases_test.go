package property_test

import (
	"slices"

	"github.com/unitward/unitward/dbusclient/property"
)

// rigCase is one -p, or several of one unit, to which our properties and
// systemd-run must give the same meaning. UNIT is the name of the unit, without
// its suffix, and DIR a directory of the test.
type rigCase struct {
	// unit is the type of the unit that has them.
	unit   string
	assign []string
	// since is the first systemd with which the two can be compared, where
	// that is later than the first that has the property: the value is newer,
	// its systemd-run cannot say it, or 247 had a bug there.
	since int
	// bug is a systemd that refuses it, whoever asks, though it has all that is
	// asked for.
	bug int
	// file is the first systemd whose unit file is compared, too.
	file int
	// same says that the value is the default: another one would stop the
	// unit, or the machine.
	same bool
	// alone says that systemd-run gets a reset wrong: it sends nothing, or an
	// element that is empty. Ours must give the default back.
	alone bool
	// system is the first systemd whose user manager refuses it.
	system int
	// say is what systemd-run is told instead.
	say string
	// unsaid is the first systemd-run that cannot say it: it lacks the name, or
	// ignores or overrides what it is told.
	unsaid int
}

func c(assign ...string) rigCase { return rigCase{unit: property.Service, assign: assign} }

func timer(assign ...string) rigCase { return rigCase{unit: "timer", assign: assign} }

func path(assign ...string) rigCase { return rigCase{unit: "path", assign: assign} }

func socket(assign ...string) rigCase { return rigCase{unit: "socket", assign: assign} }

func (r rigCase) from(since int) rigCase { r.since = since; return r }

func (r rigCase) refusedBy(bug int) rigCase { r.bug = bug; return r }

func (r rigCase) isDefault() rigCase { r.same = true; return r }

func (r rigCase) onlyOurs() rigCase { r.alone = true; return r }

func (r rigCase) systemOnly(since int) rigCase { r.system = since; return r }

func (r rigCase) fileFrom(since int) rigCase { r.file = since; return r }

func (r rigCase) said(say string) rigCase { r.say = say; return r }

func (r rigCase) cannotBeSaid(from int) rigCase { r.unsaid = from; return r }

var rigCases = slices.Concat(cgroupCases, execCases, sandboxCases, serviceCases, triggerCases)

var cgroupCases = []rigCase{
	// systemd.resource-control(5)
	c("AllowedCPUs=0"),
	c("AllowedMemoryNodes=0"),
	c("BPFProgram=egress:/sys/fs/bpf/none"),
	c("BindNetworkInterface=lo"),
	c("CPUAccounting=yes").isDefault(),
	c("CPUPressureThresholdSec=250ms"),
	c("CPUPressureWatch=skip"),
	c("CPUQuota=20%"),
	c("CPUQuota=150%"),
	c("CPUQuota=12.5%"),
	c("CPUQuota=20%", "CPUQuota=").isDefault(),
	c("CPUQuotaPeriodSec=10ms"),
	c("CPUSetPartition=root"),
	c("CPUWeight=20"),
	c("CPUWeight=20", "CPUWeight=").isDefault(),
	c("CoredumpReceive=yes"),
	// 258 and later ignore what is about slices.
	c("DefaultMemoryLow=5M").isDefault(),
	c("DefaultMemoryMin=10%").isDefault().fileFrom(248),
	c("DefaultStartupMemoryLow=5M").isDefault().cannotBeSaid(247),
	c("Delegate=yes"),
	c("Delegate=cpu memory"),
	c("DelegateSubgroup=sub"),
	c("DeviceAllow=/dev/null rw"),
	c("DeviceAllow=char-pts"),
	c("DeviceAllow=/dev/null rw", "DeviceAllow=").isDefault(),
	c("DevicePolicy=closed"),
	c("DisableControllers=cpu io"),
	c("IOAccounting=yes"),
	c("IODeviceLatencyTargetSec=/dev/null 25ms"),
	c("IODeviceWeight=/dev/null 200"),
	c("IOPressureThresholdSec=2s"),
	c("IOPressureWatch=on"),
	c("IOReadBandwidthMax=/dev/null 1M"),
	c("IOReadIOPSMax=/dev/null 1K"),
	c("IOWeight=300"),
	c("IOWriteBandwidthMax=/dev/null 1.5M"),
	c("IOWriteBandwidthMax=/dev/null 1M", "IOWriteBandwidthMax=").isDefault(),
	c("IOWriteIOPSMax=/dev/null 2000"),
	c("IPAccounting=yes"),
	c("IPAddressAllow=10.0.0.0/8 192.168.1.7 fe80::1"),
	c("IPAddressAllow=10.1.2.3/8"),
	c("IPAddressAllow=10.0.0.0/8", "IPAddressAllow=").isDefault(),
	c("IPAddressAllow=localhost"),
	c("IPAddressAllow=link-local"),
	c("IPAddressDeny=any"),
	c("IPAddressDeny=multicast"),
	c("IPEgressFilterPath=/sys/fs/bpf/none"),
	c("IPIngressFilterPath=/sys/fs/bpf/none"),
	c("ManagedOOMMemoryPressure=kill"),
	c("ManagedOOMMemoryPressureDurationSec=5s"),
	c("ManagedOOMMemoryPressureLimit=40%"),
	c("ManagedOOMMemoryPressureLimit=12.34%"),
	c("ManagedOOMPreference=avoid"),
	c("ManagedOOMSwap=kill"),
	c("MemoryAccounting=no"),
	c("MemoryHigh=1.5G"),
	c("MemoryLow=1G 512M"),
	c("MemoryMax=512M"),
	c("MemoryMax=50%").fileFrom(248),
	c("MemoryMax=33.3%").fileFrom(248),
	c("MemoryMax=12.34%").from(248),
	c("MemoryMax=4096"),
	c("MemoryMax=512M", "MemoryMax=infinity").isDefault(),
	c("MemoryMin=10%").fileFrom(248),
	c("MemoryMin=1M", "MemoryMin=").from(250).isDefault(),
	c("MemoryPressureThresholdSec=200ms"),
	c("MemoryPressureWatch=off"),
	c("MemoryPressureWatch=yes"),
	c("MemorySwapMax=0"),
	c("MemoryZSwapMax=2T"),
	c("MemoryZSwapWriteback=no"),
	c("NFTSet=cgroup:inet:filter:job"),
	c("NFTSet=user:ip6:t:s group:ip:t:s"),
	c("OOMRules=a b"),
	c("Slice=unitward-property.slice"),
	c("SocketBindAllow=tcp:8000-8010"),
	c("SocketBindAllow=ipv6:udp:53"),
	c("SocketBindAllow=80"),
	c("SocketBindDeny=any"),
	c("SocketBindDeny=ipv4:any"),
	c("StartupAllowedCPUs=0-1"),
	c("StartupAllowedMemoryNodes=0"),
	c("StartupCPUWeight=30"),
	c("StartupIOWeight=40"),
	c("StartupMemoryHigh=5M").cannotBeSaid(247),
	c("StartupMemoryLow=5M").cannotBeSaid(247),
	c("StartupMemoryMax=5M").cannotBeSaid(247),
	c("StartupMemorySwapMax=5M").cannotBeSaid(247),
	c("StartupMemoryZSwapMax=5M").cannotBeSaid(247),
	c("CPUWeight=idle").from(252),
	c("TasksAccounting=no"),
	c("TasksMax=64"),
	c("TasksMax=50%").fileFrom(248),
	c("TasksMax=infinity"),

	// What is odd to write, several to a unit.
	c("MemoryMax=1.M", "MemoryHigh= 512M", "MemoryLow=5M1K", "TasksMax=010", "CPUWeight= 7", "RuntimeMaxSec=5min20s",
		"TimerSlackNSec=1.5us", "KillSignal=RTMAX-30", "LimitNICE=+0", "LimitCPU=1ms", "UMask=22", "Nice=+5"),
	c("MemoryMax=512 M", "MemoryHigh=5B", "MemoryLow=+5M", "TasksMax=0x10", "CPUQuota=0.01%", "RuntimeMaxSec=12.34s.56",
		"TimerSlackNSec=1 nsec", "KillSignal=0x9", "LimitNICE=0", "LimitCPU=0", "LimitNOFILE=0x10:0x20", "UMask=0").from(248),
	c("MemoryMax=500‰", "MemoryHigh=5000‱", "MemoryLow=50.5‰", "TasksMax= 10", "CPUQuota=1000000%", "RuntimeMaxSec=12.34 .56",
		"TimerSlackNSec=1ns", "KillSignal=SIGRTMIN+0", "LimitNICE=-20:40", "LimitCPU=5d").from(248),
	c("MemoryMax=15E", "RuntimeMaxSec=1y 2month 3w", "KillSignal=IO", "LimitCPU=infinity", "LimitNICE=+19"),
	c("RuntimeMaxSec=1µs", "TimeoutStopSec=1μs", "TimeoutStartSec= infinity ", "RestartSec=.5s", "WatchdogSec=5 6").from(248),
	c("AllowedCPUs=0,,1 5-7", `CPUAffinity="0" 2`, "IPAddressAllow=::ffff:10.0.0.1/100", "SyslogLevel=5", "SyslogFacility=24",
		"CPUSchedulingPolicy=3", "IOSchedulingClass=2", "SystemCallErrorNumber=1", "CapabilityBoundingSet=0 7"),
	c(`ReadOnlyPaths=/a\ b`, `InaccessiblePaths=-"/a b" '/c"d'`, `BindPaths=/a\:b:/c`, `SuccessExitStatus=0x10 SIGTERM TERM`,
		`Environment="A=\u00e4\U0001f600\101" 'B=it"s'`, `SetCredential=foo:\x00a`, `LogExtraFields=FOO=a=b`, "CoredumpFilter=33"),
}
