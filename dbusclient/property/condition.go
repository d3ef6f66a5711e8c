package property

import "strings"

// condition is one element of Conditions or Asserts: what is asked, whether
// it is one of those of which one is enough, whether it is turned round, and
// of what.
type condition struct {
	Kind            string
	Trigger, Negate bool
	Parameter       string
}

// conditions are the kinds of Condition…= and Assert…=.
var conditions = [...]struct {
	name  string
	since int
}{
	{"ACPower", 0},
	{"Architecture", 0},
	{"CPUFeature", 248},
	{"CPUPressure", 250},
	{"CPUs", 0},
	{"Capability", 0},
	{"ControlGroupController", 0},
	{"Credential", 252},
	{"DirectoryNotEmpty", 0},
	{"Environment", 0},
	{"FileIsExecutable", 0},
	{"FileNotEmpty", 0},
	{"Firmware", 249},
	{"FirstBoot", 0},
	{"Fraction", 261},
	{"Group", 0},
	{"Host", 0},
	{"IOPressure", 250},
	{"KernelCommandLine", 0},
	{"KernelModuleLoaded", 258},
	{"KernelVersion", 0},
	{"MachineTag", 261},
	{"Memory", 0},
	{"MemoryPressure", 250},
	{"NeedsUpdate", 0},
	{"OSRelease", 249},
	{"PathExists", 0},
	{"PathExistsGlob", 0},
	{"PathIsDirectory", 0},
	{"PathIsEncrypted", 0},
	{"PathIsMountPoint", 0},
	{"PathIsReadWrite", 0},
	{"PathIsSocket", 260},
	{"PathIsSymbolicLink", 0},
	{"Security", 0},
	{"User", 0},
	{"Version", 258},
	{"Virtualization", 0},
}

// conditionSyntax returns the syntax of a Condition… or Assert… and since when
// it exists.
func conditionSyntax(name string) (*syntax, int) {
	kind, ok := strings.CutPrefix(name, "Condition")
	if !ok {
		if kind, ok = strings.CutPrefix(name, "Assert"); !ok {
			return nil, 0
		}
	}
	for i := range conditions {
		if conditions[i].name == kind {
			return &conditionsSyntax, conditions[i].since
		}
	}
	return nil, 0
}

var conditionsSyntax = syntax{sig: "a(sbbs)", parse: parseCondition, expected: `a condition, with "|" before it where one of several is enough and "!" where it must not hold`}

func parseCondition(_ *syntax, name, value string) ([]Property, bool) {
	list := "Conditions"
	if strings.HasPrefix(name, "Assert") {
		list = "Asserts"
	}
	if value == "" {
		return one(list, []condition{}), true
	}
	c := condition{Kind: name}
	value, c.Trigger = strings.CutPrefix(value, "|")
	c.Parameter, c.Negate = strings.CutPrefix(value, "!")
	ok := c.Parameter != ""
	if takesPath(name) {
		ok = strings.HasPrefix(c.Parameter, "/")
	}
	return one(list, []condition{c}), ok
}

func takesPath(name string) bool {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "Condition"), "Assert")
	return strings.HasPrefix(name, "Path") || strings.HasPrefix(name, "File") || name == "DirectoryNotEmpty" || name == "NeedsUpdate"
}
