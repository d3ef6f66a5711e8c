package launch

import "testing"

func TestInheritedSlice(t *testing.T) {
	const manager = "/user.slice/user-1000.slice/user@1000.service"
	for _, c := range []struct {
		root, cgroup, asked, want string
	}{
		{"/", "/user.slice/user-1000.slice/session-1.scope", "", "user-1000.slice"},
		{"/", "/user.slice/user-1000.slice/session-1.scope", "build.slice", "user-1000-build.slice"},
		{"/", "/system.slice/cron.service", "build.slice", "system-build.slice"},
		{"/", "/init.scope", "", "-.slice"},
		{"/", "/init.scope", "build.slice", "build.slice"},
		{"/machine", "/machine/system.slice/x.service", "", "system.slice"},
		{manager, manager + "/app.slice/app-x.scope", "", "app.slice"},
		{manager, manager + "/app.slice/app-unitward.slice/x.service/payload.slice", "job.slice", "app-unitward-job.slice"},
		{manager, manager + "/init.scope", "", "-.slice"},
		{manager, manager, "", "-.slice"},
		{manager, "/user.slice/user-1000.slice/session-1.scope", "", ""},
		{manager, manager + "x/app.slice/y.scope", "", ""},
	} {
		slice, ok := innerSlice(c.root, c.cgroup)
		if ok {
			slice = below(slice, c.asked)
		}
		if slice != c.want || ok != (c.want != "") {
			t.Errorf("of %s, in %s of %s: %q, %v, want %q", c.asked, c.cgroup, c.root, slice, ok, c.want)
		}
	}
}
