package property

import (
	"reflect"
	"strings"
)

// Reserved returns why a user may not set the property, with the way out, or
// nil when he may. It takes the names of unit files.
//
// What is refused here would break the proof that a job has ended, the promise
// of a bounded stop, or the secrecy of its environment. Parse takes the value
// that such a property has anyway. What is only a default
// of unitward (Slice, WorkingDirectory, UMask, the Limit… and IgnoreSIGPIPE)
// is not: there the user's value goes after ours.
func Reserved(name string) *NotAllowedError {
	reason, way := reserved(name)
	if reason == "" {
		return nil
	}
	return &NotAllowedError{Name: name, Reason: reason, Way: way}
}

func reserved(name string) (reason, way string) {
	switch name {
	case "ExecStart", "ExecStartEx":
		return "the command of a job is its arguments", "give it after the options: unitward run -- COMMAND…"
	case "ExecStopPost", "ExecStopPostEx":
		// 247 to 262 run it before the final SIGKILL, so it can keep the unit
		// from ending; an empty value would drop the job's own recorder.
		return "unitward records the job's exit there", "run what comes after the job after unitward run, or after unitward wait"

	case "Type":
		return "only Type=exec tells the job's exit from systemd's own", "leave it out"
	case "PIDFile", "GuessMainPID":
		return "the job's main process is its command, never one that the job reports", "leave it out"
	case "BusName":
		return "it belongs to Type=dbus, and a job is Type=exec", "leave it out"
	case "NotifyAccess", "WatchdogSec", "FileDescriptorStoreMax", "LUOSession":
		// The others raise NotifyAccess= to main (seen on 247 to 262), and
		// MAINPID= is then taken from a service of any Type=.
		way = "leave it out"
		if name == "WatchdogSec" {
			way = "to bound the job's time, use --timeout"
		}
		return "it opens the notification socket, through which a job can name another main process", way
	case "FileDescriptorStorePreserve":
		return "it keeps the unit, with descriptors in it, after its end", "leave it out"

	case "RemainAfterExit":
		return "the unit would stay active after its end", "unitward keeps the record: unitward status NAME"
	case "StopWhenUnneeded":
		// Seen on 252: it was stopped before it had run for 300 ms.
		return "nothing needs a job's unit, so it would be stopped at once", "leave it out"
	case "ExecCondition", "ExecConditionEx":
		return skipped()
	case "ExitType":
		return "it decides what happens to processes that are left", "use --leftovers kill, wait or keep"
	case "KillMode":
		return "a stop must reach every process of the job", "to let some live on, use --leftovers keep"
	case "SendSIGKILL", "FinalKillSignal":
		return "a stop ends with SIGKILL, or it could go on for ever", "for more time before it, use --grace"
	case "TimeoutStopFailureMode":
		return "after the grace comes SIGKILL, and nothing before it", "for more time, use --grace"
	case "KillSignal":
		return "the report says which signal a stop sent", "use --kill-signal"
	case "TimeoutStopSec":
		return "it is the grace of a stop", "use --grace"
	case "TimeoutSec":
		return "it includes TimeoutStopSec, the grace of a stop", "use --grace, and TimeoutStartSec for the start"
	case "RuntimeMaxSec":
		return "the report must be able to tell a timeout", "use --timeout"
	case "RuntimeRandomizedExtraSec":
		return "a timeout is a ceiling", "use --timeout"

	case "Restart", "RestartForceExitStatus", "RestartMode", "RestartSec", "RestartSteps", "RestartMaxDelaySec",
		"RestartRandomizedDelaySec", "RestartPreventExitStatus", "RestartKillSignal":
		return "a job is one run: after a restart its exit would be another process's", "start it again, or make a unit file for a service"
	case "Markers":
		return "they ask for the unit to be restarted, and a job is one run", "leave it out"
	case "CollectMode":
		return "unitward decides when the unit may go: after its exit was read, also when it failed", "leave it out"
	case "RefuseManualStart":
		return "the start itself would be refused", "leave it out"
	case "RefuseManualStop":
		return "unitward stop would be refused", "leave it out"
	case "PAMName":
		// systemd.exec(5): the main process is likely to be moved to a
		// session scope.
		return "PAM may move the job out of its unit, where nothing can prove its end", "leave it out"

	case "StandardInput", "StandardInputText", "StandardInputData":
		return "unitward passes the job's input as a descriptor", "use --stdin, or redirect the input of unitward run"
	case "StandardOutput", "StandardError":
		return "unitward passes the job's output as a descriptor", "use --output, or redirect the output of unitward run"
	case "Environment":
		return "everybody could read it, over the bus and in a file", "use -E NAME=VALUE"
	case "EnvironmentFile", "PassEnvironment", "UnsetEnvironment":
		// They reach ExecStopPost= too, where $EXIT_STATUS is the evidence, and
		// do not reach a job whose environment is handed over.
		return "unitward passes the job's whole environment, and systemd tells the job's exit by variables", "use -E NAME=VALUE, --clean-env, or unitward run -- env -u NAME COMMAND…"
	}
	if strings.HasPrefix(name, "Condition") {
		return skipped()
	}
	// The other names of Standard…= on the bus, such as StandardOutputFile.
	switch {
	case strings.HasPrefix(name, "StandardInputFile"):
		return reserved("StandardInput")
	case strings.HasPrefix(name, "StandardOutputFile"), strings.HasPrefix(name, "StandardErrorFile"):
		return reserved("StandardOutput")
	}
	return "", ""
}

// skipped: the manager calls the start of a unit that it skips "done".
func skipped() (reason, way string) {
	return "a start that is skipped counts as done, and nothing ran whose exit could be known", "test it in the command, or with the Assert… of the same name, which fails the start"
}

// isFixed reports whether the value is the one that a property which the user
// may not set has anyway.
func isFixed(name, value string) bool {
	fixed, ok := fixedValue(name)
	if !ok {
		return false
	}
	got, err := Convert(name, value)
	if err != nil {
		return false
	}
	want, err := Convert(name, fixed)
	return err == nil && reflect.DeepEqual(got, want)
}

func fixedValue(name string) (value string, ok bool) {
	switch name {
	case "Type":
		return "exec", true
	case "KillMode":
		return "control-group", true
	case "CollectMode":
		return "inactive-or-failed", true
	case "FinalKillSignal":
		return "SIGKILL", true
	case "TimeoutStopFailureMode":
		return "terminate", true
	case "NotifyAccess":
		return "none", true
	case "WatchdogSec", "FileDescriptorStoreMax":
		return "0", true
	case "SendSIGKILL":
		return "yes", true
	case "RemainAfterExit", "Restart", "StopWhenUnneeded", "RefuseManualStart", "RefuseManualStop":
		return "no", true
	}
	return "", false
}
