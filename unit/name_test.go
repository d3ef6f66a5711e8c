package unit

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseName(t *testing.T) {
	long := strings.Repeat("n", MaxName)
	for _, c := range []struct {
		in, want, reason string
	}{
		{"a", "a", ""},
		{"foo", "foo", ""},
		{"foo.service", "foo", ""},
		{"A-z_0:9.b", "A-z_0:9.b", ""},
		{`a\x2db`, `a\x2db`, ""},
		{`\x2db`, `\x2db`, ""},
		{`a\xFf`, `a\xFf`, ""},
		{"_", "_", ""},
		{"a@b", "a@b", ""},
		{"a-b@1.2.service", "a-b@1.2", ""},
		{"a@b@c", "a@b@c", ""},
		{`a\`, `a\`, ""},
		{`a\x2`, `a\x2`, ""},
		{`a\y2d`, `a\y2d`, ""},
		{":a", ":a", ""},
		{"foo.service.d", "foo.service.d", ""},
		{"service", "service", ""},
		{"mount", "mount", ""},
		{"foo.mounted", "foo.mounted", ""},
		{long, long, ""},
		{long + ".service", long, ""},

		{"", "", "empty"},
		{".service", "", "empty"},
		{long + "n", "", "248 bytes"},
		{strings.Repeat("n", 300), "", "300 bytes"},
		{strings.Repeat("n", 300) + ".service", "", "300 bytes"},
		{".a", "", `starts with '.'`},
		{"..", "", `starts with '.'`},
		{"-a", "", `starts with '-'`},
		{"-", "", `starts with '-'`},
		{"foo.scope", "", "ends with .scope"},
		{"foo.slice", "", "ends with .slice"},
		{"foo.scope.service", "", "ends with .scope"},
		{"foo.automount", "", "ends with .automount"},
		{"foo.timer", "", "ends with .timer"},
		// As job foo.service it would be found by nobody: that names job foo.
		{"foo.service.service", "", "ends with .service twice"},
		{"a b", "", `byte " "`},
		{"a/b", "", `byte "/"`},
		{"../b", "", `starts with '.'`},
		{"/dev/sda", "", "a path"},
		{"a@", "", "template"},
		{"@b", "", "template"},
		{"a\nb", "", `byte "\n"`},
		{"a\x00", "", `byte "\x00"`},
		{"a\x7f", "", `byte "\x7f"`},
		{"ä", "", `character 'ä'`},
		{"\xff", "", `byte "\xff"`},
		{"a\xe4b", "", `byte "\xe4"`}, // an ä in Latin-1
		{"a%i", "", "byte"},
		{"a$b", "", "byte"},
	} {
		got, err := ParseName(c.in)
		if c.reason == "" {
			if err != nil || got != c.want {
				t.Errorf("ParseName(%q) = %q, %v; want %q", c.in, got, err, c.want)
			}
			continue
		}
		var bad *NameError
		if !errors.As(err, &bad) || !errors.Is(err, ErrUsage) {
			t.Errorf("ParseName(%q) = %q, %v; want a usage error", c.in, got, err)
			continue
		}
		if !strings.Contains(bad.Reason, c.reason) || bad.Name != c.in || got != "" || len(bad.Hint()) == 0 {
			t.Errorf("ParseName(%q): %v, %q; want the reason %q", c.in, err, got, c.reason)
		}
		if strings.ContainsAny(err.Error(), "\n\x00\x7f") || len(err.Error()) > 300 {
			t.Errorf("ParseName(%q): the error is not one printable line: %q", c.in, err)
		}
	}
}

// allowed is the rule for names once more, in other words.
func allowed(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:_.-\\@"
	return strings.Trim(s, letters) == "" && s[0] != '@' && strings.IndexByte(s, '@') != len(s)-1
}

// What systemd makes of names is in TestLinesNamed of tests/e2e.
func TestMangleName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-c/.@%* \\-]{0,9}`)).Draw(t, "s")
		got := MangleName(s)
		if again := MangleName(got); again != got {
			t.Fatalf("MangleName(%q) = %q, and of that %q", s, got, again)
		}
		if name, err := ParseName(got); err == nil && (!allowed(name) || strings.Contains(name, "/") || name[0] == '.') {
			t.Fatalf("MangleName(%q) = %q passes as %q", s, got, name)
		}
		if _, err := ParseName(s); err == nil && got != s {
			t.Fatalf("MangleName(%q) = %q, and it was a name", s, got)
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"", "foo", "foo.service", "foo.service.service", `a\x2d`, `a\x2`, ".a", "-", "a/b", "a\n", "\xff", strings.Repeat("x", 208)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := ParseName(s)
		if err != nil {
			if name != "" || !errors.Is(err, ErrUsage) {
				t.Fatalf("ParseName(%q) = %q, %v", s, name, err)
			}
			return
		}
		if s != name && s != name+".service" {
			t.Fatalf("ParseName(%q) = %q: it was changed", s, name)
		}
		if name == "" || len(name) > MaxName || name[0] == '.' || name[0] == '-' || !allowed(name) {
			t.Fatalf("ParseName(%q) = %q: that is no name", s, name)
		}
		for _, again := range []string{name, name + ".service"} {
			if got, err := ParseName(again); err != nil || got != name {
				t.Fatalf("ParseName(%q) = %q, but ParseName(%q) = %q, %v", s, name, again, got, err)
			}
		}
	})
}

func TestNewName(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"make", "unitward-make-7f3a90c1"},
		{"/usr/bin/make", "unitward-make-7f3a90c1"},
		{"./a b", "unitward-a_b-7f3a90c1"},
		{"", "unitward-job-7f3a90c1"},
		{"dir/", "unitward-job-7f3a90c1"},
		{"[", "unitward-_-7f3a90c1"},
		{`a\x2d`, "unitward-a_x2d-7f3a90c1"},
		{strings.Repeat("c", 300), "unitward-" + strings.Repeat("c", maxCommand) + "-7f3a90c1"},
	} {
		if got := NewName(c.command, "7f3a90c1"); got != c.want {
			t.Errorf("NewName(%q) = %q, want %q", c.command, got, c.want)
		}
	}
}

func TestNewNameIsAlwaysAName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		command := string(rapid.SliceOf(rapid.Byte()).Draw(t, "command"))
		random := rapid.StringMatching(`[0-9a-f]{8}`).Draw(t, "random")
		name := NewName(command, random)
		if got, err := ParseName(name); err != nil || got != name {
			t.Fatalf("NewName(%q) = %q, and ParseName says %q, %v", command, name, got, err)
		}
		if !strings.HasSuffix(name, "-"+random) {
			t.Fatalf("NewName(%q) = %q: the random digits are not in it", command, name)
		}
	})
}
