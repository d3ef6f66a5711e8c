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
