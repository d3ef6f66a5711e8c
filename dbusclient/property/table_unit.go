package property

import "strings"

// unitTable has the settings of systemd.unit(5). The inverse dependencies,
// such as RequiredBy, are no settings there and are left out: systemd-run sends
// them, and every manager refuses them.
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
	{"Markers", &markersSyntax, 248},
	{"OnFailure", &unitsSyntax, 0},
	{"OnFailureJobMode", &jobModeSyntax, 0},
	{"OnSuccess", &unitsSyntax, 249},
	{"OnSuccessJobMode", &jobModeSyntax, 249},
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
			"restart-dependencies@254 lenient@258",
	}
	actionSyntax = syntax{
		sig: "s", parse: parseChoice,
		words: "none exit exit-force reboot reboot-force reboot-immediate poweroff poweroff-force poweroff-immediate " +
			"soft-reboot@254 soft-reboot-force@254 kexec@254 kexec-force@254 halt@254 halt-force@254 halt-immediate@254",
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

var markersSyntax = syntax{sig: "as", parse: parseMarkers, expected: `needs-restart, needs-reload, needs-start or needs-stop, with "+" or "-" before each to change those that are there`}

func parseMarkers(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	for _, w := range ws {
		what, found := strings.CutPrefix(strings.TrimLeft(w, "+-"), "needs-")
		ok = ok && found && (what == "restart" || what == "reload" || what == "start" || what == "stop")
	}
	return one(name, ws), ok
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
