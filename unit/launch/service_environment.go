package launch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// environment has the manager give what it executes an environment, by a file that is
// to be written.
func environment(ctx context.Context, c *dbusclient.Client, file string, env []string, s *unit.Spec, svc *dbusclient.Service) error {
	inherited, err := c.Environ(ctx)
	if err != nil {
		return err
	}
	svc.EnvironmentFile, svc.Unset = file, slices.DeleteFunc(unset(inherited, env), callersUser(s))
	return nil
}

// tellsEnd is true for a variable by which systemd tells a recorder how the service has
// ended, and whose end that is (systemd.exec(5)). A file with the job's environment is
// given to the recorder too, and would win over it.
func tellsEnd(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	switch name {
	case "EXIT_CODE", "EXIT_STATUS", "SERVICE_RESULT", "INVOCATION_ID":
		return true
	}
	return false
}

// added are the variables that systemd sets for a service by itself, and that are not
// of its unit (systemd.exec(5), "Environment Variables in Spawned Processes").
var added = [...]string{"HOME", "LOGNAME", "USER", "SHELL", "PATH", "LANG", "TERM", "XDG_RUNTIME_DIR", "MANAGERPID", "MANAGERPIDFDID"}

// unset lists the variables that the manager would add and that are not the caller's.
// What it says of the unit is the job's.
func unset(inherited, env []string) []string {
	have := make(map[string]bool, len(env)+1)
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		have[name] = true
	}
	var out []string
	take := func(name string) {
		if !have[name] && IsVariable(name) && !unit.OfUnit(name) && !tellsEnd(name) {
			have[name] = true
			out = append(out, name)
		}
	}
	for _, kv := range inherited {
		name, _, _ := strings.Cut(kv, "=")
		take(name)
	}
	for _, name := range added {
		take(name)
	}
	return out
}

// carries is true for an assignment of a variable that systemd can carry.
func carries(kv string) bool {
	name, value, _ := strings.Cut(kv, "=")
	return IsVariable(name) && utf8.ValidString(value)
}

// IsVariable is systemd's own rule for names (environment.d(5)).
func IsVariable(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// writeEnvironment writes a file for EnvironmentFile= (systemd.exec(5)).
func writeEnvironment(file string, env []string) error {
	size := 0
	for _, kv := range env {
		size += len(kv) + 8
	}
	var b strings.Builder
	b.Grow(size)
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		b.WriteString(name)
		b.WriteString(`="`)
		for i := 0; i < len(value); i++ {
			if c := value[i]; c == '"' || c == '\\' || c == '`' || c == '$' {
				b.WriteByte('\\')
			}
			b.WriteByte(value[i])
		}
		b.WriteString("\"\n")
	}
	if err := keeper.WritePrivate(file, []byte(b.String())); err != nil {
		return fmt.Errorf("cannot write the job's environment: %w", err)
	}
	return nil
}
