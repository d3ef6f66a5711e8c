package unit

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAppName(t *testing.T) {
	for _, c := range []struct {
		id, launcher string
		scope        bool
		want         string
	}{
		{"org.gnome.Calculator", "", false, "app-org.gnome.Calculator@0a1b2c3d"},
		{"org.gnome.Calculator", "gnome", false, "app-gnome-org.gnome.Calculator@0a1b2c3d"},
		{"org.gnome.Calculator", "gnome", true, "app-gnome-org.gnome.Calculator-0a1b2c3d"},
		{"gnome-terminal", "my-shell", true, `app-my\x2dshell-gnome\x2dterminal-0a1b2c3d`},
		{".hidden", "", false, `app-\x2ehidden@0a1b2c3d`},
		{"a b@ü", "", false, `app-a\x20b\x40\xc3\xbc@0a1b2c3d`},
	} {
		got, err := AppName(c.id, c.launcher, "0a1b2c3d", c.scope)
		if err != nil || got != c.want {
			t.Errorf("AppName(%q, %q, scope %v) = %q, %v, want %q", c.id, c.launcher, c.scope, got, err, c.want)
		}
		if name, err := ParseName(got); name != got || err != nil {
			t.Errorf("%q is no name of a job: %v", got, err)
		}
	}
	for _, c := range []struct{ id, launcher string }{
		{"", ""}, {"a/b", ""}, {"a", "b/c"}, {"a\x00b", ""}, {"a", strings.Repeat("l", MaxName)},
	} {
		_, err := AppName(c.id, c.launcher, "0a1b2c3d", false)
		var wrong *AppIDError
		if !errors.As(err, &wrong) || !errors.Is(err, ErrUsage) || len(wrong.Hint()) != 1 {
			t.Errorf("AppName(%q, %.20q) = %v", c.id, c.launcher, err)
		}
	}
}

// A name is one of a job whatever the id, is never too long, and ends with the
// random part; a cut never leaves half an escape.
func TestAppNameHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := strings.Map(noSlash, rapid.String().Draw(t, "id")) + strings.Repeat("-", rapid.IntRange(0, 300).Draw(t, "long"))
		if id == "" {
			id = "x"
		}
		launcher := strings.Map(noSlash, rapid.StringN(0, 20, 40).Draw(t, "launcher"))
		name, err := AppName(id, launcher, "0a1b2c3d", rapid.Bool().Draw(t, "scope"))
		if err != nil {
			t.Fatalf("AppName(%q, %q): %v", id, launcher, err)
		}
		if parsed, err := ParseName(name); parsed != name || err != nil {
			t.Fatalf("AppName(%q, %q) = %q: %v", id, launcher, name, err)
		}
		if !strings.HasPrefix(name, "app-") || !strings.HasSuffix(name, "0a1b2c3d") {
			t.Fatalf("AppName(%q, %q) = %q", id, launcher, name)
		}
	})
}

func noSlash(r rune) rune {
	if r == '/' || r == 0 {
		return '_'
	}
	return r
}
