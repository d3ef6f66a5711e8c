package property

import "strings"

// unitTable has the settings of systemd.unit(5). The inverse dependencies,
// such as RequiredBy, are no settings there and are left out.
var unitTable = [...]entry{
	{"After", &unitsSyntax, 0},
	{"AllowIsolate", &booleanSyntax, 0},
	{"Before", &unitsSyntax, 0},
	{"BindsTo", &unitsSyntax, 0},
	{"CollectMode", &collectSyntax, 0},
	{"Conflicts", &unitsSyntax, 0},
	{"DefaultDependencies", &booleanSyntax, 0},
	{"Description", &textSyntax, 0},
	{"Documentation", &documentationSyntax, 0},
	{"FailureAction", &actionSyntax, 0},
	{"FailureActionExitStatus", &exitCodeSyntax, 0},
	{"IgnoreOnIsolate", &booleanSyntax, 0},
	{"JobRunningTimeoutSec", &spanSyntax, 0},
	{"JobTimeoutAction", &actionSyntax, 0},
	{"JobTimeoutRebootArgument", &textSyntax, 0},
	// In unit files since 216, but 257 still refuses it on the bus.
	{"JobTimeoutSec", &spanSyntax, 258},
	{"JoinsNamespaceOf", &unitsSyntax, 0},
	{"OnFailure", &unitsSyntax, 0},
	{"OnFailureJobMode", &jobModeSyntax, 0},
	{"OnSuccess", &unitsSyntax, 249},
	{"PartOf", &unitsSyntax, 0},
	{"PropagatesReloadTo", &unitsSyntax, 0},
	{"PropagatesStopTo", &unitsSyntax, 249},
	{"RebootArgument", &textSyntax, 0},
	{"RefuseManualStart", &booleanSyntax, 0},
	{"RefuseManualStop", &booleanSyntax, 0},
	{"ReloadPropagatedFrom", &unitsSyntax, 0},
	{"Requires", &unitsSyntax, 0},
	{"RequiresMountsFor", &pathsSyntax, 0},
	{"Requisite", &unitsSyntax, 0},
	{"SourcePath", &pathSyntax, 0},
	{"StartLimitAction", &actionSyntax, 0},
	{"StartLimitBurst", &uint32Syntax, 0},
	{"StartLimitIntervalSec", &spanSyntax, 0},
	{"StopPropagatedFrom", &unitsSyntax, 249},
	{"StopWhenUnneeded", &booleanSyntax, 0},
	{"SuccessAction", &actionSyntax, 0},
	{"SuccessActionExitStatus", &exitCodeSyntax, 0},
	{"SurviveFinalKillSignal", &booleanSyntax, 255},
	{"Upholds", &unitsSyntax, 249},
	{"Wants", &unitsSyntax, 0},
	{"WantsMountsFor", &pathsSyntax, 256},
}

var (
	collectSyntax = syntax{sig: "s", parse: parseChoice, words: "inactive inactive-or-failed"}
	jobModeSyntax = syntax{
		sig: "s", parse: parseChoice,
		words: "fail replace replace-irreversibly isolate flush ignore-dependencies ignore-requirements triggering " +
			"restart-dependencies lenient",
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

var unitsSyntax = syntax{sig: "as", parse: parseUnits, expected: "names of units with their suffix, such as foo.service"}

func parseUnits(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	for _, w := range ws {
		ok = ok && unitSuffix(w[strings.LastIndexByte(w, '.')+1:]) && !strings.Contains(w, "/")
	}
	return one(name, ws), ok
}

func unitSuffix(s string) bool {
	switch s {
	case "service", "scope", "slice", "target", "socket", "timer", "path", "mount", "automount", "swap", "device":
		return true
	}
	return false
}

var documentationSyntax = syntax{sig: "as", parse: parseDocumentation, expected: "URIs that begin with http://, https://, file:, info: or man:, or nothing to reset the list"}

func parseDocumentation(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	for _, w := range ws {
		scheme, rest, _ := strings.Cut(w, ":")
		switch scheme {
		case "http", "https":
			ok = ok && strings.HasPrefix(rest, "//")
		case "file", "info", "man":
		default:
			ok = false
		}
		ok = ok && rest != ""
	}
	return one(name, ws), ok
}
