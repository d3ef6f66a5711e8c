package verify

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// The recorder's strings come from a file, and error texts and command lines
// from anywhere: whatever they are, they prove no more than they say.
func FuzzJudgeRecorded(f *testing.F) {
	for _, s := range [][2]string{{"exited", "0"}, {"exited", "255"}, {"exited", "256"}, {"killed", "TERM"}, {"killed", "0"},
		{"dumped", "SIGSEGV"}, {"killed", "RTMIN+30"}, {"", ""}, {"exited\n", "0"}, {"exited", "\xff"}, {"dumped", "RTMAX-31"}} {
		f.Add(s[0], s[1], ourID)
	}
	f.Fuzz(func(t *testing.T, code, status, id string) {
		o := job(notFound(), cgroup(CgroupGone)).recorded(code, status)
		o.Recorded.InvocationID = id
		v := Judge(o)
		exit, _ := proven(o)
		if v.Exit.Known != exit || v.Confirmed != exit || v.Lost == exit {
			t.Fatalf("EXIT_CODE=%q EXIT_STATUS=%q of %q: %+v", code, status, id, v)
		}
		switch {
		case !exit:
			if !strings.Contains(v.Missing[0].Said, "the recorder") {
				t.Fatalf("the recorder is not named: %q", v.Missing)
			}
		case code == "exited":
			if n, err := strconv.Atoi(status); err != nil || v.Exit.Code != n || v.Exit.Signal != 0 {
				t.Fatalf("EXIT_STATUS=%q is %+v", status, v.Exit)
			}
		default:
			if v.Exit.Signal < 1 || v.Exit.Signal > 64 || v.Exit.Code != 0 || v.Exit.CoreDumped != (code == "dumped") {
				t.Fatalf("EXIT_CODE=%q EXIT_STATUS=%q is %+v", code, status, v.Exit)
			}
		}
		noControl(t, v)
	})
}

// Whatever stands in a keeper's record, on whichever rung: it proves no more
// than the rule lets it.
func FuzzJudgeKept(f *testing.F) {
	f.Add(IsolationScope, ourNonce, ourNonce, true, 0, 0, false, true, uint8(0), "keeper wait")
	f.Add(IsolationCgroup, ourNonce, otherNonce, true, 256, -1, true, true, uint8(7), "")
	f.Add(IsolationGroup, "", "", true, 0, 9, false, false, uint8(255), "a\nb")
	f.Fuzz(func(t *testing.T, isolation, nonce, kept string, exited bool, code, signal int, core, childless bool, bits uint8, source string) {
		for _, isolation := range []string{isolation, IsolationService, IsolationScope, IsolationCgroup, IsolationGroup} {
			o := Observation{
				Name: jobName, Isolation: isolation, Nonce: nonce, At: lookedAt, Identity: Identity{State: IdentityState(bits >> 5)},
				KeeperGone: bits&1 != 0, AcceptWeak: bits&2 != 0, Stopping: bits&4 != 0,
				Kept:  &Kept{Nonce: kept, Exited: exited, Code: code, Signal: signal, CoreDumped: core, Childless: childless, Source: source},
				Group: goneGroup(), Cgroup: cgroup(CgroupState(bits >> 3 & 3)),
			}
			v := Judge(o)
			exit, empty := proven(o)
			if v.Exit.Known != exit || v.Tree.Empty != empty || v.Grade != graded(o) {
				t.Fatalf("%+v of %+v: %+v", o.Kept, o, v)
			}
			if exit && (v.Exit.Code != code || v.Exit.Signal != signal || v.Exit.CoreDumped != core) {
				t.Fatalf("%+v reads %+v", o.Kept, v.Exit)
			}
			noControl(t, v)
		}
	})
}

// No text that comes from outside breaks a line of ours.
func FuzzJudgeTexts(f *testing.F) {
	f.Add("a\nb", "\x1b[2J")
	f.Add("\xff", "\u2028\u202e")
	f.Add(`foo\x2dbar`, "'")
	f.Fuzz(func(t *testing.T, a, b string) {
		o := job(Unit{Err: a}, unreadable(b))
		o.Name = b
		noControl(t, Judge(o))
		noControl(t, Judge(o.identity(IdentityForeign, a)))
		o.Unit = unit(a+"/"+b, a, 4, 0, b, 1)
		noControl(t, Judge(o))
		o.Unit.LoadState = b
		noControl(t, Judge(o))
		o.Cgroup = populated(Member{PID: 1, Command: a, State: "D", Wchan: b})
		noControl(t, Judge(o.on(a)))
		o.Unit.InvocationID = a
		noControl(t, Judge(o))
		o.Cgroup = Cgroup{State: CgroupReplaced, Path: a}
		noControl(t, Judge(o))
		g := keptJob(IsolationGroup).exited(0, 0).orphaned().keptAs(func(k *Kept) { k.Nonce, k.Source = a, b })
		m := []Member{{PID: 1, Command: a, State: "D", Wchan: b}}
		for _, look := range []Group{group(GroupPopulated).having(m...), {State: GroupUnavailable, PGID: 2, Err: a},
			group(GroupGone).scanned(ScanIncomplete, b, nil, nil), goneGroup().scanned(ScanComplete, "", m, nil), goneGroup().scanned(ScanComplete, "", nil, m)} {
			noControl(t, Judge(g.at(look)))
		}
	})
}

func noControl(t *testing.T, v Verdict) {
	t.Helper()
	texts := []string{v.Exit.Source, v.Tree.Source, v.Remedy}
	for _, m := range v.Missing {
		texts = append(texts, m.Looked, m.Said)
	}
	for _, s := range texts {
		if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			t.Fatalf("%q would break a line", s)
		}
	}
}
