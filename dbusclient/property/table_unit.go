package property

import "strings"

// unitTable has the settings of systemd.unit(5). The inverse dependencies,
// such as RequiredBy, are no settings there and are left out.
var unitTable = [...]entry{
	{"After", &wordsSyntax, 0},
	{"AllowIsolate", &booleanSyntax, 0},
	{"Before", &wordsSyntax, 0},
	{"BindsTo", &wordsSyntax, 0},
	{"CollectMode", &collectSyntax, 0},
	{"Conflicts", &wordsSyntax, 0},
	{"DefaultDependencies", &booleanSyntax, 0},
	{"Description", &textSyntax, 0},
	{"Documentation", &wordsSyntax, 0},
	{"FailureAction", &actionSyntax, 0},
	{"FailureActionExitStatus", &exitCodeSyntax, 0},
	{"IgnoreOnIsolate", &booleanSyntax, 0},
	{"JobRunningTimeoutSec", &spanSyntax, 0},
	{"JobTimeoutAction", &actionSyntax, 0},
	{"JobTimeoutRebootArgument", &textSyntax, 0},
	// In unit files since 216, but 257 still refuses it on the bus.
	{"JobTimeoutSec", &spanSyntax, 258},
	{"JoinsNamespaceOf", &wordsSyntax, 0},
	{"OnFailure", &wordsSyntax, 0},
	{"OnFailureJobMode", &jobModeSyntax, 0},
	{"OnSuccess", &wordsSyntax, 249},
	{"PartOf", &wordsSyntax, 0},
	{"PropagatesReloadTo", &wordsSyntax, 0},
	{"PropagatesStopTo", &wordsSyntax, 249},
	{"RebootArgument", &textSyntax, 0},
	{"RefuseManualStart", &booleanSyntax, 0},
	{"RefuseManualStop", &booleanSyntax, 0},
	{"ReloadPropagatedFrom", &wordsSyntax, 0},
	{"Requires", &wordsSyntax, 0},
	{"RequiresMountsFor", &pathsSyntax, 0},
	{"Requisite", &wordsSyntax, 0},
	{"SourcePath", &pathSyntax, 0},
	{"StartLimitAction", &actionSyntax, 0},
	{"StartLimitBurst", &uint32Syntax, 0},
	{"StartLimitIntervalSec", &spanSyntax, 0},
	{"StopPropagatedFrom", &wordsSyntax, 249},
	{"StopWhenUnneeded", &booleanSyntax, 0},
	{"SuccessAction", &actionSyntax, 0},
	{"SuccessActionExitStatus", &exitCodeSyntax, 0},
	{"SurviveFinalKillSignal", &booleanSyntax, 255},
	{"Upholds", &wordsSyntax, 249},
	{"Wants", &wordsSyntax, 0},
	{"WantsMountsFor", &pathsSyntax, 256},
}

var (
	collectSyntax = syntax{sig: "s", parse: parseChoice, words: "inactive inactive-or-failed"}
	jobModeSyntax = syntax{
		sig: "s", parse: parseChoice,
		words: "fail replace replace-irreversibly isolate flush ignore-dependencies ignore-requirements",
	}
	actionSyntax = syntax{
		sig: "s", parse: parseChoice,
		words: "none exit exit-force reboot reboot-force reboot-immediate poweroff poweroff-force poweroff-immediate " +
			"soft-reboot soft-reboot-force kexec kexec-force halt halt-force halt-immediate",
	}
)

var sliceSyntax = syntax{sig: "s", parse: parseSlice, expected: "the name of a slice unit such as jobs.slice"}

func parseSlice(_ *syntax, name, value string) ([]Property, bool) {
	return one(name, value), len(value) > len(".slice") && strings.HasSuffix(value, ".slice") && !strings.Contains(value, "/")
}
