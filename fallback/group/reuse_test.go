package group

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/verify"
)

// A number of a living group is given to nobody, and one that was given away
// is never signalled.
func TestReusedNumber(t *testing.T) {
	asRoot(t)
	var said []string
	ask(t, nil, unix.CLONE_NEWPID|unix.CLONE_NEWNS, &said, "reuse")
	for _, s := range said {
		t.Error(s)
	}
}

// reuse is the first process of a pid namespace: it makes a group, ends it and
// has its number given to another.
func reuse() error {
	if err := mountProc(""); err != nil {
		return err
	}
	said := []string{}
	j, err := launch(nil, "member")
	if err != nil {
		return err
	}
	pid := j.id.PID
	// While a member lives, the number of the dead leader stays taken.
	if err := j.cmd.Process.Kill(); err != nil {
		return err
	}
	j.cmd.Wait()
	for range 20 {
		other, err := launchAt(pid)
		if err != nil {
			return err
		}
		if other.id.PID == pid {
			said = append(said, "the number of a living group was given away")
		}
		other.kill()
	}
	if err := j.Check(); err != nil {
		said = append(said, "without its leader: "+err.Error())
	}
	unix.Kill(j.pids["member"], unix.SIGKILL)
	unix.Wait4(j.pids["member"], nil, 0, nil) // it came back to us, the namespace's init

	var other *job
	for tries := 1; ; tries++ { // until it has the number, in another tick of the clock
		if tries == 1000 {
			return errors.New("the number was never given out again")
		}
		if other, err = launchAt(pid); err != nil {
			return err
		}
		if other.id.PID == pid && other.id.StartTime != j.id.StartTime {
			break
		}
		other.kill()
	}
	if err := j.Signal(unix.SIGKILL); !isMismatch(err, "start time") {
		said = append(said, "signal to a reused number: "+errorText(err))
	}
	if l := j.Look(); l.State != verify.GroupGone || l.Members != nil {
		b, _ := json.Marshal(l)
		said = append(said, "a look at a reused number: "+string(b))
	}
	if err := other.Check(); err != nil {
		said = append(said, "the other one: "+err.Error())
	}
	if s, err := proc.Root.Stat(pid); err != nil || s.Ended() {
		said = append(said, "the other one was signalled")
	}
	other.kill()
	return json.NewEncoder(os.Stdout).Encode(said)
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// launchAt makes pid the next number to be given out, as far as it is free.
func launchAt(pid int) (*job, error) {
	const file = "/proc/sys/kernel/ns_last_pid"
	if err := os.WriteFile(file, []byte(itoa(pid-1)), 0); err != nil {
		return nil, err
	}
	return launch(nil)
}

func (j *job) kill() {
	j.cmd.Process.Kill()
	j.cmd.Wait()
	j.hold.Close()
	j.say.Close()
}
