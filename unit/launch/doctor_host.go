package launch

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/unitward/unitward/unit"
)

// examineManager connects to the manager of a rung; false when there is none.
func (l *Launcher) examineManager(ctx context.Context, f *RungFinding) bool {
	c, err := l.client(ctx, here(f.Manager))
	if err != nil {
		f.Problem, f.Hints = err.Error(), l.managerHints(f.Manager)
		return false
	}
	f.Version, f.Address, f.Place = c.Version(), c.Address(), c.ControlGroup()
	if !c.References() {
		f.Caveats = append(f.Caveats, Note{"it answers on its private socket only, which holds no ended unit: exits are written down by a recorder", "start the message bus (dbus-daemon or dbus-broker)"})
	}
	have, why := l.controllers(c)
	for _, asked := range allLimits() {
		controller, _ := controllerOf(asked.Name)
		lim := LimitHolds{Name: asked.Name, Holds: slices.Contains(have, controller)}
		if !lim.Holds {
			lim.Why = "the " + controller + " controller is not delegated to it"
			if why != "" {
				lim.Why = why
			}
		}
		f.Limits = append(f.Limits, lim)
	}
	if f.Manager == unit.ManagerUser && !lingers(l.cfg.UID) {
		f.Caveats = append(f.Caveats, Note{"the manager, and every job in it, ends with the last login", "loginctl enable-linger"})
	}
	return true
}

// managerHints say why a manager may be missing, as far as it can be seen.
func (l *Launcher) managerHints(m unit.Manager) []string {
	if !exists("/run/systemd/system") {
		return []string{"PID 1 of this host is not systemd: jobs are held by the other isolations"}
	}
	if m == unit.ManagerSystem {
		if !exists("/run/dbus/system_bus_socket") {
			return []string{"the system bus does not run: systemctl start dbus.socket"}
		}
		return []string{"see what the system bus says: busctl --system status org.freedesktop.systemd1"}
	}
	uid := strconv.Itoa(l.cfg.UID)
	dir := "/run/user/" + uid
	var out []string
	if d := l.cfg.Getenv("XDG_RUNTIME_DIR"); d != "" && ownerOf(d) != l.cfg.UID {
		out = append(out, "XDG_RUNTIME_DIR is "+d+", which is not this user's: export XDG_RUNTIME_DIR="+dir)
	}
	switch {
	case !exists(dir):
		out = append(out, "no user manager runs: log in, or let it run without a login: loginctl enable-linger "+userName(l.cfg.UID))
	case !exists(dir + "/systemd/private"):
		out = append(out, "the user manager does not run: systemctl start user@"+uid+".service")
	case !exists(dir + "/bus"):
		out = append(out, "the user's message bus does not run: install dbus-user-session, then: systemctl --user start dbus.socket")
	}
	return out
}

// hostNotes are what is special about this host.
func (l *Launcher) hostNotes() []Note {
	notes := []Note{}
	h := l.hierarchy()
	switch {
	case h == nil:
		notes = append(notes, Note{"no cgroup v2 is mounted: that a unit is empty is seen by the manager's word and the removal of its cgroup alone, and isolations scope and cgroup do not work", "boot with systemd.unified_cgroup_hierarchy=1"})
	case h.Mount() != "/sys/fs/cgroup":
		notes = append(notes, Note{"cgroup v2 is mounted at " + h.Mount() + " beside cgroup v1, which keeps the controllers: limits may not hold", "boot with systemd.unified_cgroup_hierarchy=1"})
	}
	if v := strings.ToLower(firstLine("/proc/version")); strings.Contains(v, "microsoft") {
		notes = append(notes, Note{"this is WSL, whose PID 1 need not be systemd", "[boot] systemd=true in /etc/wsl.conf, then: wsl --shutdown"})
	}
	inits := []string{"systemd", "init", "tini", "docker-init", "catatonit", "dumb-init", "s6-svscan"}
	if init := firstLine("/proc/1/comm"); inContainer() && !slices.Contains(inits, init) {
		notes = append(notes, Note{"this is a container whose PID 1, " + init + ", may reap no orphans: a run leaves none, but the keeper of each job of start then stays as a zombie once it has ended", "run the container with an init (docker run --init)"})
	}
	return notes
}

// initialPIDNamespace is the inode of the one that a kernel comes up with
// (PROC_PID_INIT_INO).
const initialPIDNamespace = 0xeffffffc

// inContainer is true where an engine says so, or where there are processes that
// cannot be seen from here: PID 1 is then a process like any other.
func inContainer() bool {
	n := pidNamespace()
	return exists("/.dockerenv") || exists("/run/.containerenv") || n != 0 && n != initialPIDNamespace
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ownerOf is the uid that a file belongs to; -1 when that is not known.
func ownerOf(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// userName is a user's name, or its number where it has none.
func userName(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return strconv.Itoa(uid)
	}
	return u.Username
}

// lingers reports whether the user's manager outlives logins
// (loginctl(1), enable-linger).
func lingers(uid int) bool { return exists(filepath.Join("/var/lib/systemd/linger", userName(uid))) }
