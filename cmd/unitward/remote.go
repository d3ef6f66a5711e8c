package main

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// remoteOptions say that a manager which is not one of this machine's own is to
// hold the job.
type remoteOptions struct{ host, machine, capsule string }

func (o *remoteOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.host, "host", "H", "", "ask the system manager of `[USER@]HOST`, by ssh")
	f.StringVarP(&o.machine, "machine", "M", "", "ask the manager of the container, or user, `[USER@]NAME`; NAME is .host for this machine")
	f.StringVarP(&o.capsule, "capsule", "C", "", "")
	f.Lookup("capsule").Hidden = true
}

// remote decides which manager is asked, and where.
func (o *jobOptions) remote(s *unit.Spec) error {
	r := o.remoteOptions
	switch {
	case r.capsule != "":
		return usage("cannot use --capsule %s: its manager is another user's, whose word is not taken", quote(r.capsule))
	case r.host != "" && r.machine != "":
		return &usageError{"cannot use --host and --machine together: one manager holds a unit", "a machine of a host is --host HOST/MACHINE"}
	case r.host != "":
		if _, err := unit.ParseHost(r.host); err != nil {
			return wrong("host", r.host, err)
		}
		if o.user {
			return &usageError{"cannot use --user with --host: ssh leads to the system manager alone", "run unitward there: ssh " + r.host + " unitward run --user -- COMMAND…"}
		}
		s.Manager, s.Remote = unit.ManagerSystem, unit.Remote{Host: r.host}
	case r.machine != "":
		name, machine, at, err := unit.ParseMachine(r.machine)
		if err != nil {
			return wrong("machine", r.machine, err)
		}
		if !o.user {
			s.Manager = unit.ManagerSystem
		} else {
			s.Manager = unit.ManagerUser
		}
		if machine == unit.ThisMachine && own(name, at, s.Manager) {
			return nil // a manager of our own, by another name
		}
		s.Remote = unit.Remote{Machine: r.machine}
	}
	return nil
}

// own is true for a manager of this machine that is the caller's own: as sd-bus
// has it, a name without @ is root's, and without a user the caller's.
func own(name string, at bool, m unit.Manager) bool {
	uid := os.Geteuid()
	switch {
	case !at:
		return m == unit.ManagerSystem || uid == 0
	case name == "", name == strconv.Itoa(uid):
		return true
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	return err == nil && u.Username == name
}

// whyNotThere says why a job elsewhere cannot have an option; empty where it can.
// A value that means what such a job has anyway is no matter.
func whyNotThere(option string, s *unit.Spec) (why, hint string) {
	switch option {
	case "isolation", "scope", "cgroup-parent":
		if !slices.Equal(s.Isolation, []string{verify.IsolationService}) {
			return "of a job elsewhere nothing but a service is seen from here", "leave out --" + option
		}
	case "stdin", "output", "pipe", "pty", "pty-late", "shell", "output-max", "on-output-max":
		if option == "stdin" && s.Stdin == unit.InputNull || option == "output" && (s.Output == unit.OutputJournal || s.Output == unit.OutputNull) {
			return "", ""
		}
		return "streams do not go there", "what it writes is in the journal there, with --output null nowhere"
	case "setenv", "clean-env", "expand-environment":
		return "it has the environment that its manager gives, and a variable would be for everybody there to read", "give it a file that is there: -p LoadCredential=ID:PATH"
	case "lifetime", "owner-pid":
		if s.Lifetime != unit.LifetimeDetached {
			return "nobody there watches a process of this machine", "it outlives its call; --timeout holds there"
		}
	case "require-limits":
		return "what becomes of a limit is not seen from here", "leave it out"
	case "slice-inherit":
		return "the caller is in no slice there", "name one with --slice"
	}
	return "", ""
}

// elsewhere makes a job one of a manager elsewhere, if one was asked for.
func (o *jobOptions) elsewhere(cmd *cobra.Command, s *unit.Spec) error {
	if !s.Remote.Named() {
		return nil
	}
	var refused error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if why, hint := whyNotThere(f.Name, s); why != "" && refused == nil {
			refused = &usageError{fmt.Sprintf("cannot use --%s with a job of %s: %s", f.Name, s.Remote, why), hint}
		}
	})
	if refused != nil {
		return refused
	}
	if o.dir != "" && !path.IsAbs(o.dir) {
		return usage("cannot use --working-directory %s with a job of %s: an absolute path is expected", quote(o.dir), s.Remote)
	}
	s.Isolation, s.Lifetime, s.Stdin = []string{verify.IsolationService}, unit.LifetimeDetached, unit.InputNull
	if !cmd.Flags().Changed("output") {
		s.Output = unit.OutputJournal
	}
	s.Dir = o.dir
	if same, _ := cmd.Flags().GetBool("same-dir"); same && o.dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("cannot find the working directory: %w", err)
		}
		s.Dir = dir
	}
	s.Env = nil
	return nil
}
