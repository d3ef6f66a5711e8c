package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// ours is the name of the cgroup that unitward makes for its units where the
// place is shared with others. Only it has the mode 0700 there and belongs to
// us, by which it is recognised; whatever else has the name is foreign. It is
// made with the first unit and goes with the last.
const ours = "unitward"

// Place is what kind of cgroup a Parent is.
type Place string

// The places for units, in the order in which they are tried.
const (
	// PlaceNamed is one that the user named.
	PlaceNamed Place = "named"
	// PlaceOwn is our own cgroup, which is delegated to us.
	PlaceOwn Place = "own"
	// PlaceManager is the tree of our user manager, which is delegated to it.
	PlaceManager Place = "user-manager"
	// PlaceTop is the top of the hierarchy.
	PlaceTop Place = "top"
)

// Parent is a cgroup below which units can be made. Close one in which several are.
type Parent struct {
	// Path is the cgroup that holds the units. It need not exist yet.
	Path string
	// Place says what it is.
	Place Place
	// Refused says what was tried before it, and why not.
	Refused []unit.Refusal

	h *Hierarchy
	// base is there already; Path is base, or ours in it.
	base string
	// shared is true when Path is ours in base.
	shared bool
	// mine is true when base's controllers may be changed.
	mine bool
	// holder is nil for who holds units one at a time.
	holder *holder
}

// FindParent is FindHierarchy and the hierarchy's FindParent. Every error is
// *unit.IsolationError.
func FindParent(named string) (*Parent, error) {
	h, err := FindHierarchy()
	if err != nil {
		return nil, &unit.IsolationError{
			Isolation: verify.IsolationCgroup,
			Refused:   []unit.Refusal{{What: "the cgroup2 file system", Why: err.Error()}},
			Hints:     []string{"mount it where this process can see it: mount -t cgroup2 none DIR"},
		}
	}
	return h.FindParent(named)
}

// FindParent finds a place for units: the cgroup that is named, and no other,
// if named is not empty; else our own one if it is delegated to us, our user
// manager's, and the top of the hierarchy. It makes nothing. The name is an
// absolute path below the cgroup root, or one in the file system below the
// mount. The error is *unit.IsolationError, with the reason of each.
//
// A place is usable when its real path is on the cgroup2 file system, its
// cgroup.type is "domain", we may make directories in it, and we may write
// cgroup.procs of the common ancestor of it and our own cgroup: else no
// process of ours can get there (cgroup-v2.rst, "Delegation Containment").
func (h *Hierarchy) FindParent(named string) (*Parent, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, h.unusable(fmt.Sprintf("cannot tell which cgroup is our own: %v", err))
	}
	own, ok := parseOwn(string(b))
	if !ok {
		return nil, h.unusable("/proc/self/cgroup names no cgroup of version 2")
	}
	// sd_booted(3)
	_, err = os.Lstat("/run/systemd/system")
	return (&search{h: h, own: own, uid: os.Geteuid(), systemd: err == nil}).run(named)
}

// search is what the choice of a place depends on.
type search struct {
	h   *Hierarchy
	own string
	uid int
	// systemd is true when PID 1 is systemd.
	systemd bool
}

// candidate is a place to be looked at.
type candidate struct {
	what string
	Parent
	// why is set when it is refused before a look.
	why string
}

func (s *search) run(named string) (*Parent, error) {
	var refused []unit.Refusal
	for _, c := range s.candidates(named) {
		if c.why == "" {
			c.Path = c.base
			if c.shared {
				c.Path = path.Join(c.base, ours)
			}
			c.why = s.check(&c)
		}
		if c.why == "" {
			p := c.Parent
			p.h, p.Refused, p.holder = s.h, refused, &holder{}
			return &p, nil
		}
		refused = append(refused, unit.Refusal{What: c.what, Why: c.why})
	}
	e := &unit.IsolationError{Isolation: verify.IsolationCgroup, Refused: refused}
	switch {
	case named != "":
		e.Hints = []string{"name a cgroup in which you may make others, and to whose common ancestor with your own you may move processes"}
	case s.uid != 0:
		e.Hints = []string{"start it in a cgroup that is delegated: systemd-run --user --scope -p Delegate=yes unitward …", "or name one with --cgroup-parent"}
	default:
		e.Hints = []string{"name a cgroup with --cgroup-parent"}
	}
	return nil, e
}

func (s *search) candidates(named string) []candidate {
	if named != "" {
		c := candidate{what: "the cgroup " + named, Parent: Parent{Place: PlaceNamed, mine: true}}
		c.base, c.why = s.h.named(named)
		return []candidate{c}
	}
	own := candidate{what: "our own cgroup " + s.own, Parent: Parent{Place: PlaceOwn, base: s.own}, why: s.notDelegated()}
	manager := candidate{Parent: Parent{Place: PlaceManager, base: s.manager(), shared: true}}
	// Applications of the user are accounted for there (systemd.special(7)).
	if fd, err := s.h.find(manager.base + "/app.slice"); err == nil {
		unix.Close(fd)
		manager.base += "/app.slice"
	}
	manager.what = "the user manager's " + manager.base
	top := candidate{what: "the top of the hierarchy", Parent: Parent{Place: PlaceTop, base: s.h.root, shared: true, mine: !s.systemd}}
	return []candidate{own, manager, top}
}

// manager is the cgroup of our user manager (user@.service(5)).
func (s *search) manager() string {
	return fmt.Sprintf("/user.slice/user-%d.slice/user@%d.service", s.uid, s.uid)
}

// named takes a path below the cgroup root or below the mount.
func (h *Hierarchy) named(p string) (cgroup, why string) {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return "", "it is no clean absolute path"
	}
	if rel, ok := strings.CutPrefix(p, h.mount); ok && (rel == "" || rel[0] == '/') {
		p = path.Join(h.root, rel)
	}
	if p == h.root {
		return "", "it is the top of the hierarchy; name one below it"
	}
	return p, ""
}

// notDelegated says why our own cgroup is not ours to divide. The system
// manager marks what it delegates (CGROUP_DELEGATION.md): version 247 where
// only root can see it, 257 for everyone. It lets nothing else belong to a
// user. A user manager marks nothing, and everything in its tree belongs to its
// user: whether a service of it is delegated cannot be told, so units go beside
// its services and not into them.
func (s *search) notDelegated() string {
	if s.own == s.h.root {
		return "it is the top of the hierarchy"
	}
	u := systemdUnit(s.own)
	if u == "" || s.h.marked(u) {
		return ""
	}
	if s.uid != 0 && !below(s.own, s.manager()) {
		return "" // what it belongs to is checked next
	}
	return "it belongs to " + path.Base(u) + ", which has no Delegate=yes"
}

// marked is true when systemd says that a unit's cgroup is delegated.
func (h *Hierarchy) marked(cgroup string) bool {
	fd, _, err := h.beneath(cgroup)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var b [8]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Fgetxattr(fd, name, b[:]); err == nil && string(b[:n]) == "1" {
			return true
		}
	}
	return false
}

// check says why a candidate cannot be used.
func (s *search) check(c *candidate) (why string) {
	fd, st, err := s.h.beneath(c.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case err != nil:
		return err.Error()
	}
	defer unix.Close(fd)
	// The true root of the hierarchy has no type.
	if kind, err := readAt(fd, "cgroup.type"); c.Place != PlaceTop || !errors.Is(err, fs.ErrNotExist) {
		if why := notDomain(kind, err); why != "" {
			return why
		}
	}
	if err := unix.Faccessat(fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Sprintf("it belongs to uid %d, and we may make no cgroup in it: %v", st.Uid, err)
	}
	if c.shared {
		child, err := unix.Openat(fd, ours, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			why, err = foreign(child, s.uid)
			unix.Close(child)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			why = err.Error()
		}
		if why != "" {
			return "its cgroup " + ours + " is not ours: " + why
		}
	}
	return s.unreachable(c.Path)
}

func notDomain(kind string, err error) string {
	switch kind = strings.TrimSuffix(kind, "\n"); {
	case err != nil:
		return fmt.Sprintf("cannot read its cgroup.type: %v", err)
	case kind != "domain":
		return fmt.Sprintf("its cgroup.type is %q, not \"domain\"", kind)
	}
	return ""
}

// unreachable says why no process of ours can get into a cgroup.
func (s *search) unreachable(cgroup string) string {
	if path.Clean(s.own) != s.own || !path.IsAbs(s.own) {
		return fmt.Sprintf("our own cgroup %s is outside of this cgroup namespace", s.own)
	}
	common := ancestor(s.own, cgroup)
	fd, st, err := s.h.beneath(common)
	if err != nil {
		return fmt.Sprintf("cannot see %s, its common ancestor with our own cgroup %s: %v", common, s.own, err)
	}
	defer unix.Close(fd)
	procs, err := unix.Openat(fd, "cgroup.procs", unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Sprintf("no process can be moved there from our own cgroup %s: cgroup.procs of their common ancestor %s, which belongs to uid %d, is not for us to write: %v", s.own, common, st.Uid, err)
	}
	unix.Close(procs)
	return ""
}

func (p *Parent) unusable(why string) error {
	return &unit.IsolationError{Isolation: verify.IsolationCgroup, Refused: []unit.Refusal{{What: "the cgroup " + p.Path, Why: why}}}
}
