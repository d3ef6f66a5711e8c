package launch

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/unitward/unitward/fallback/cgroup"
)

// killedByManager is how a manager's KillUnit for all of a unit is told of.
const killedByManager = "KillUnit all"

// versionCgroupKill is the systemd whose manager ends a unit by cgroup.kill: see
// killMembers for the earlier ones.
const versionCgroupKill = 250

// frozenKillWait bounds a kill that freezes the members first.
const frozenKillWait = 2 * time.Second

// killInstead sends SIGKILL to all of the job where a manager of that version had
// better not be asked to; done is false where it is to be, or nobody else can.
func (j *Job) killInstead(ctx context.Context, signal, version int) (how string, done bool) {
	if signal != sigKill || version >= versionCgroupKill {
		return "", false
	}
	how, err := j.killMembers(ctx)
	return how, err == nil
}

// killMembers sends SIGKILL to every member of the recorded cgroup: by
// cgroup.kill (Linux 5.14), and before that to each of them while they are
// frozen. A manager of systemd 247 sends it to each while others are born, and
// then goes on, for ever against a fork bomb, and answers nobody meanwhile.
func (j *Job) killMembers(ctx context.Context) (how string, err error) {
	h, id := j.hierarchy(), j.rec().Identity
	if h == nil {
		return "", cgroup.ErrNoHierarchy
	}
	if id.CgroupInode == 0 {
		return "", errors.New("its cgroup was not recorded")
	}
	err = j.group().Kill()
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return string(cgroup.WayKill), err
	}
	raw, err := h.Attach(id.Cgroup, id.CgroupInode)
	if errors.Is(err, fs.ErrNotExist) {
		return "the cgroup is gone", nil
	}
	if err != nil {
		return "", err
	}
	defer raw.Close()
	ctx, cancel := context.WithTimeout(ctx, frozenKillWait)
	defer cancel()
	way, err := raw.Kill(ctx)
	if err == nil && way == cgroup.WayNone {
		return "no member was left", nil
	}
	return string(way), err
}
