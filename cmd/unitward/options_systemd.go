package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/verify"
)

// systemdOptions are options of systemd-run that only name what unitward does
// anyway, or that are a property of the unit.
type systemdOptions struct {
	sliceInherit, sendSIGHUP, ignoreFailure, noBlock bool
	serviceType, jobMode                             string
	expandEnvironment                                yesNo
	appID, appLauncher                               string
	rootDirectory                                    string
	version                                          bool
}

func (o *systemdOptions) register(f *pflag.FlagSet) {
	f.BoolVar(&o.sliceInherit, "slice-inherit", false, "put the unit in the slice that this command is in, or with --slice below it")
	f.StringVar(&o.appID, "app-id", "", "name the unit as an instance of the application `ID`, as desktops do, in app.slice")
	f.StringVar(&o.appLauncher, "launcher", "", "with --app-id: name `NAME` as who launches the application")
	f.StringVar(&o.serviceType, "service-type", "exec", "wait for what this `TYPE` of service waits for: exec, simple or, with run, oneshot")
	f.StringVar(&o.jobMode, "job-mode", "fail", "what becomes of jobs that the manager has queued: a `MODE` of systemctl --job-mode")
	f.Var(&o.expandEnvironment, "expand-environment", "`yes|no`: replace ${NAME} in the arguments by the job's variables, as systemd does")
	f.BoolVar(&o.ignoreFailure, "ignore-failure", false, "take a failure of the command for a success")
	f.BoolVar(&o.sendSIGHUP, "send-sighup", false, "send SIGHUP after the first signal of a stop")
	f.BoolVar(&o.noBlock, "no-block", false, "accepted for systemd-run's sake by start, which waits for no more than the execution")
	f.BoolP("remain-after-exit", "r", false, "accepted for systemd-run's sake: the record stays after the end")
	f.BoolP("verbose", "v", false, "accepted for systemd-run's sake: run passes output on, and logs -f shows it")
	f.Bool("no-ask-password", false, "accepted for systemd-run's sake: nothing is ever asked")
	f.StringVar(&o.rootDirectory, "root-directory", "", "run with `DIR` as the root directory")
	f.BoolP("same-root-dir", "R", false, "run with the root directory of this command's manager, which is the default")
	f.BoolVar(&o.version, "version", false, "say which unitward this is, and run nothing")
	f.Bool("no-pager", false, "accepted for systemd-run's sake: there is never a pager")
}

// jobModes are those of systemctl(1) that leave the job its guard: without
// dependencies the unit would not end with its owner.
var jobModes = [...]string{"fail", "replace", "replace-irreversibly", "isolate", "flush", "restart-dependencies", "lenient"}

// manage turns them into parts of the job.
func (o *jobOptions) manage(s *unit.Spec) error {
	s.InheritSlice, s.IgnoreFailure = o.sliceInherit, o.ignoreFailure
	if o.rootDirectory != "" {
		if err := o.root(s); err != nil {
			return err
		}
	}
	if o.sendSIGHUP {
		s.Properties = append(slices.Clip(s.Properties), "SendSIGHUP=yes")
	}
	if o.jobMode != "fail" {
		if !slices.Contains(jobModes[:], o.jobMode) {
			return usage("cannot use --job-mode %s: one of %s is expected", quote(o.jobMode), strings.Join(jobModes[:], ", "))
		}
		s.JobMode = o.jobMode
	}
	foreground := s.Lifetime == unit.LifetimeCall
	switch o.serviceType {
	case "exec", "simple":
	case "oneshot":
		if !foreground {
			return &usageError{"cannot use --service-type oneshot: start does not wait for the end", "use unitward run, or unitward wait after it"}
		}
		if slices.ContainsFunc(s.Properties, func(p string) bool { return strings.HasPrefix(p, "TimeoutStartSec=") }) {
			return &usageError{"cannot use TimeoutStartSec= with --service-type oneshot: there it would bound the whole run", "use --timeout"}
		}
	default:
		return &usageError{"cannot use --service-type " + quote(o.serviceType) + ": exec, simple or oneshot is expected",
			"with the others a job could say itself when it has started, or which process is its main one"}
	}
	if o.noBlock && foreground {
		return &usageError{"cannot use --no-block: run waits for the end", "use unitward start"}
	}
	if o.appLauncher != "" && o.appID == "" {
		return &usageError{"cannot use --launcher: no application was named", "add --app-id"}
	}
	return nil
}

// told is true where something was asked for and not to run a job, which it prints.
func (o *systemdOptions) told(to streams) (bool, error) {
	var text string
	switch {
	case o.version:
		text = "unitward version " + readIdentity().String()
	case o.jobMode == "help":
		text = strings.Join(jobModes[:], "\n")
	default:
		return false, nil
	}
	_, err := fmt.Fprintln(to.Out, text)
	return true, err
}

// isNoDirectory is true where something else is, or nothing.
func isNoDirectory(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir()
}

// root gives the job another root directory.
func (o *jobOptions) root(s *unit.Spec) error {
	here := !s.Remote.Named()
	if !here && !filepath.IsAbs(o.rootDirectory) {
		return usage("cannot use --root-directory %s with a manager of %s: an absolute path is expected", quote(o.rootDirectory), s.Remote)
	}
	dir, err := filepath.Abs(o.rootDirectory)
	if err != nil {
		return fmt.Errorf("cannot find the root directory: %w", err)
	}
	if here && isNoDirectory(dir) {
		return &usageError{"cannot use --root-directory " + quote(o.rootDirectory) + ": " + dir + " is no directory", "name one that is there: a relative path begins here"}
	}
	if s.Isolation[0] != verify.IsolationService {
		return usage("cannot use --root-directory with --isolation %s: service is expected", quote(strings.Join(s.Isolation, ",")))
	}
	s.Isolation = []string{verify.IsolationService}
	s.Properties = append(slices.Clip(s.Properties), "RootDirectory="+dir)
	if dir != "/" && o.dir == "" {
		o.dir = "/" // this directory is not in there
	}
	return nil
}

// application names the job as an instance of an application.
func (o *jobOptions) application(s *unit.Spec) (err error) {
	switch {
	case o.name != "":
		return usage("cannot use --app-id and --unit together: both name the unit")
	case s.Manager != unit.ManagerUser:
		return &usageError{"cannot use --app-id: the system manager has no applications", "add --user"}
	case o.sliceInherit:
		return usage("cannot use --app-id and --slice-inherit together: both choose the slice")
	}
	switch scope := slices.Equal(s.Isolation, []string{verify.IsolationScope}); {
	case scope:
	case s.Isolation[0] == verify.IsolationService:
		s.Isolation = []string{verify.IsolationService} // the name tells the types apart
	default:
		return usage("cannot use --app-id with --isolation %s: service or scope is expected", quote(o.isolation))
	}
	b := make([]byte, 4)
	rand.Read(b) // never fails (crypto/rand)
	if s.Name, err = unit.AppName(o.appID, o.appLauncher, hex.EncodeToString(b), s.Isolation[0] == verify.IsolationScope); err != nil {
		return err
	}
	if s.Slice == "" {
		s.Slice = "app.slice"
	}
	return nil
}

// expand replaces variables in the arguments.
func (o *jobOptions) expand(s *unit.Spec) error {
	if o.expandEnvironment.on {
		s.Command = append([]string{s.Command[0]}, launch.Expand(s.Command[1:], s.Env)...)
	}
	return nil
}

// yesNo is the value of an option that wants a word for it.
type yesNo struct{ on bool }

// Set takes the words that systemd takes for a truth value.
func (y *yesNo) Set(s string) (err error) {
	y.on, err = truth(s)
	return err
}

// truth reads the words that systemd takes for a truth value.
func truth(s string) (bool, error) {
	on, ok := property.Boolean(s)
	if !ok {
		return false, errors.New("yes or no is expected")
	}
	return on, nil
}

// switchValue is the value of an option that can do without one.
type switchValue struct{ pflag.Value }

// Set is that of yesNo.
func (v switchValue) Set(s string) error {
	on, err := truth(s)
	if err != nil {
		return err
	}
	return v.Value.Set(strconv.FormatBool(on))
}

// switches has every option that can do without a value take systemd's words for one.
func switches(f *pflag.FlagSet) {
	f.VisitAll(func(o *pflag.Flag) {
		if o.Value.Type() == "bool" {
			o.Value = switchValue{o.Value}
		}
	})
}

// Type is what help says of an option without a word for its value.
func (y *yesNo) Type() string { return "yes|no" }

// String is the value as help shows it.
func (y *yesNo) String() string {
	if y.on {
		return "yes"
	}
	return "no"
}
