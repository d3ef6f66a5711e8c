package property

// serviceTable has the settings of systemd.service(5).
var serviceTable = [...]entry{
	{"BusName", &textSyntax, 0},
	{"ExecCondition", &commandSyntax, 0},
	{"ExecConditionEx", &commandSyntax, 0},
	{"ExecReload", &commandSyntax, 0},
	{"ExecReloadEx", &commandSyntax, 0},
	{"ExecReloadPost", &commandSyntax, 259},
	{"ExecReloadPostEx", &commandSyntax, 259},
	{"ExecStart", &commandSyntax, 0},
	{"ExecStartEx", &commandSyntax, 0},
	{"ExecStartPost", &commandSyntax, 0},
	{"ExecStartPostEx", &commandSyntax, 0},
	{"ExecStartPre", &commandSyntax, 0},
	{"ExecStartPreEx", &commandSyntax, 0},
	{"ExecStop", &commandSyntax, 0},
	{"ExecStopEx", &commandSyntax, 0},
	{"ExecStopPost", &commandSyntax, 0},
	{"ExecStopPostEx", &commandSyntax, 0},
	{"ExitType", &exitTypeSyntax, 250},
	{"FileDescriptorStoreMax", &uint32Syntax, 0},
	{"FileDescriptorStorePreserve", &preserveSyntax, 254},
	{"GuessMainPID", &booleanSyntax, 0},
	{"LUOSession", &wordsSyntax, 262},
	{"NotifyAccess", &notifyAccessSyntax, 0},
	{"OOMPolicy", &oomPolicySyntax, 0},
	{"OpenFile", &openFileSyntax, 253},
	{"PIDFile", &textSyntax, 0},
	{"PermissionsStartOnly", &booleanSyntax, 0},
	{"RefreshOnReload", &refreshSyntax, 260},
	{"ReloadSignal", &signalSyntax, 253},
	{"RemainAfterExit", &booleanSyntax, 0},
	{"Restart", &restartSyntax, 0},
	{"RestartForceExitStatus", &exitSetSyntax, 0},
	{"RestartMaxDelaySec", &spanSyntax, 254},
	{"RestartMode", &restartModeSyntax, 254},
	{"RestartPreventExitStatus", &exitSetSyntax, 0},
	{"RestartRandomizedDelaySec", &spanSyntax, 262},
	{"RestartSec", &spanSyntax, 0},
	{"RestartSteps", &uint32Syntax, 254},
	{"RootDirectoryStartOnly", &booleanSyntax, 0},
	{"RuntimeMaxSec", &spanSyntax, 0},
	{"RuntimeRandomizedExtraSec", &spanSyntax, 250},
	{"SuccessExitStatus", &exitSetSyntax, 0},
	{"TimeoutAbortSec", &spanSyntax, 0},
	{"TimeoutSec", &timeoutSyntax, 0},
	{"TimeoutStartFailureMode", &failureModeSyntax, 0},
	{"TimeoutStartSec", &spanSyntax, 0},
	{"TimeoutStopFailureMode", &failureModeSyntax, 0},
	{"TimeoutStopSec", &spanSyntax, 0},
	{"Type", &typeSyntax, 0},
	{"USBFunctionDescriptors", &pathSyntax, 0},
	{"USBFunctionStrings", &pathSyntax, 0},
	{"WatchdogSec", &spanSyntax, 0},
}

var (
	exitTypeSyntax     = syntax{sig: "s", parse: parseChoice, words: "main cgroup"}
	failureModeSyntax  = syntax{sig: "s", parse: parseChoice, words: "terminate abort kill"}
	notifyAccessSyntax = syntax{sig: "s", parse: parseChoice, words: "none main exec all"}
	oomPolicySyntax    = syntax{sig: "s", parse: parseChoice, words: "continue stop kill"}
	restartModeSyntax  = syntax{sig: "s", parse: parseChoice, words: "normal direct debug@257"}
	restartSyntax      = syntax{sig: "s", parse: parseChoice, words: "no always on-success on-failure on-abnormal on-watchdog on-abort"}
	typeSyntax         = syntax{sig: "s", parse: parseChoice, words: "simple exec forking oneshot dbus notify notify-reload@253 idle"}
)
