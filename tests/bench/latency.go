package main

import (
	"errors"
	"fmt"
	"os"
)

// Names of rows that others are compared with.
const (
	runService  = "unitward run (service)"
	runScope    = "unitward run (scope)"
	runCgroup   = "unitward run (cgroup)"
	runGroup    = "unitward run (group)"
	peerService = "systemd-run --wait --pipe"
	peerStarted = "systemd-run"
	peerScope   = "systemd-run --scope"
	peerBare    = "bare D-Bus program"
	peerCrun    = "crun run"
	ownStart    = "unitward version"
	plainTrue   = "fork + exec of true"
)

// The targets of single commands.
const (
	mostService = 0.80
	mostScope   = 0.70
	mostOwn     = 1.6
	mostCrun    = 0.4
)

// latency measures one job of `true`, from the fork of the command to its end.
func (b *bench) latency() (err error) {
	r, err := newRuntimes(b.dir+"/runtimes", "true")
	if err != nil {
		return err
	}
	entrants := append(b.ownCommands("true"), b.managerPeers()...)
	entrants = append(entrants, runtimePeers(r)...)
	entrants = append(entrants, plainPeers(b.nothing)...)
	if err := spooler(b.dir); err != nil {
		return err
	}
	defer func() {
		if find("tsp") == "" {
			err = errors.Join(err, command("tsp", "-K")())
		}
		err = errors.Join(err, os.Unsetenv("TMPDIR"), os.Unsetenv("TS_SOCKET"))
	}()
	if err := contest(warmUp, b.n, entrants); err != nil {
		return err
	}
	b.add("latency", "ms", entrants)
	return nil
}

// own is an entrant of unitward's.
func (b *bench) own(name string, against []comparison, args ...string) *entrant {
	return &entrant{series: series{name: name, against: against}, ours: true, once: timed(command(append([]string{b.unitward}, args...)...))}
}

// ownCommands run a job in each isolation, and two start one.
func (b *bench) ownCommands(job string) []*entrant {
	return []*entrant{
		b.own(runService, []comparison{{To: peerService, AtMost: mostService}, {To: peerBare}}, "run", b.manager, "--isolation", "service", "--", job),
		b.own(runScope, []comparison{{To: peerScope, AtMost: mostScope}}, "run", b.manager, "--isolation", "scope", "--", job),
		b.own(runCgroup, []comparison{{To: ownStart, AtMost: mostOwn}, {To: peerCrun, AtMost: mostCrun}}, "run", "--isolation", "cgroup", "--", job),
		b.own(runGroup, []comparison{{To: ownStart}, {To: plainTrue}}, "run", "--isolation", "group", "--", job),
		b.own("unitward start (service)", []comparison{{To: peerStarted}}, "start", "-q", b.manager, "--isolation", "service", "--", job),
		b.own("unitward start (cgroup)", []comparison{{To: ownStart}}, "start", "-q", "--isolation", "cgroup", "--", job),
		b.own(ownStart, []comparison{{To: "a Go program that does nothing"}, {To: plainTrue}}, "version"),
		b.own("unitward run --help", []comparison{{To: ownStart}}, "run", "--help"),
	}
}

// other is an entrant of a peer's, which takes no part where a program is not
// installed.
func other(name, program string, once func() error) *entrant {
	return &entrant{series: series{name: name, lacking: find(program)}, once: timed(once)}
}

// managerPeers ask the same manager.
func (b *bench) managerPeers() []*entrant {
	calls := 0
	return []*entrant{
		other(peerService, "systemd-run", command("systemd-run", b.manager, "--wait", "--pipe", "-q", "true")),
		other("systemd-run --wait", "systemd-run", command("systemd-run", b.manager, "--wait", "--collect", "-q", "true")),
		other(peerStarted, "systemd-run", command("systemd-run", b.manager, "--collect", "-q", "true")),
		other(peerScope, "systemd-run", command("systemd-run", b.manager, "--scope", "--collect", "-q", "true")),
		other("busctl StartTransientUnit", "busctl", func() error {
			calls++
			return command(transient(b.manager, fmt.Sprintf("bench-busctl-%d-%d.service", os.Getpid(), calls))...)()
		}),
		other(peerBare, b.self, command(b.self, "bare", b.manager)),
	}
}

// runtimePeers need no manager.
func runtimePeers(r *runtimes) []*entrant {
	return []*entrant{
		other(peerCrun, "crun", func() error { return command(r.crun()...)() }),
		other("runc run", administrators("runc"), func() error { return command(r.runc()...)() }),
		other("conmon + crun", "conmon", r.conmonOnce),
		other("bubblewrap", "bwrap", command(r.bwrap("true")...)),
		other("task-spooler", "tsp", command("tsp", "-nf", "true")),
	}
}

// plainPeers are what none can be faster than.
func plainPeers(nothing string) []*entrant {
	return []*entrant{
		other("a Go program that does nothing", nothing, command(nothing)),
		other(plainTrue, "true", command("true")),
	}
}
