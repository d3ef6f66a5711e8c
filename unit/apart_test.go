package unit_test

import (
	"testing"

	"github.com/unitward/unitward/unit"
)

func TestApart(t *testing.T) {
	for _, c := range []struct {
		s     unit.Spec
		apart bool
		root  string
	}{
		{unit.Spec{}, false, "/"},
		{unit.Spec{UID: "nobody"}, true, "/"},
		{unit.Spec{GID: "daemon"}, true, "/"},
		{unit.Spec{Properties: []string{"MemoryMax=1G", "UserX=y"}}, false, "/"},
		{unit.Spec{Properties: []string{"User=nobody"}}, true, "/"},
		{unit.Spec{Properties: []string{"User="}}, false, "/"},
		{unit.Spec{Properties: []string{"Group=daemon"}}, true, "/"},
		{unit.Spec{Properties: []string{"DynamicUser=yes"}}, true, "/"},
		{unit.Spec{Properties: []string{"DynamicUser=No"}}, false, "/"},
		{unit.Spec{Properties: []string{"RootImage=/x.raw"}}, true, "/"},
		{unit.Spec{Properties: []string{"RootDirectory=/"}}, false, "/"},
		{unit.Spec{Properties: []string{"RootDirectory=/a", "RootDirectory=/b/"}}, true, "/b"},
	} {
		if got, root := c.s.Apart(), c.s.Root(); got != c.apart || root != c.root {
			t.Errorf("%+v: %t, %s; want %t, %s", c.s.Properties, got, root, c.apart, c.root)
		}
	}
}
