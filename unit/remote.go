package unit

// Remote says how a manager is reached that is not one of this machine's own
// for the caller: through a host, or in a machine. The zero value is none.
//
// Nothing of such a job is seen but what its manager says: its processes are
// not this kernel's, or not this user's to look at.
type Remote struct {
	// Host is where ssh(1) leads, in the form of systemctl(1), --host:
	// [USER@]HOST[:PORT][/CONTAINER]. Empty is none.
	Host string `json:"host,omitempty"`
	// Machine is a container of this machine, or another user of it or of this
	// machine, in the form of systemctl(1), --machine: [USER@]NAME, where NAME
	// is .host for this machine. Empty is none.
	Machine string `json:"machine,omitempty"`
}

// Named reports whether there is one.
func (r Remote) Named() bool { return r != Remote{} }

// String is the remote for people: empty for none.
func (r Remote) String() string {
	switch {
	case r.Host != "":
		return "host " + r.Host
	case r.Machine != "":
		return "machine " + r.Machine
	}
	return ""
}

// Options are what makes systemctl(1) and other programs of systemd go there.
func (r Remote) Options() string {
	switch {
	case r.Host != "":
		return " -H " + r.Host
	case r.Machine != "":
		return " -M " + r.Machine
	}
	return ""
}

// Far is a manager elsewhere, as it is recognised.
type Far struct {
	Remote
	// MachineID is the machine id (machine-id(5)) of where it was met.
	MachineID string `json:"machine_id"`
	// Began is UserspaceTimestamp of the manager (org.freedesktop.systemd1(5)),
	// in microseconds: when it was started, which outlasts its re-execution. A
	// system manager has another only after a reboot of its machine.
	Began uint64 `json:"began_us"`
}

// at is "the user manager", with where it is.
func at(m Manager, r Remote) string {
	if s := r.String(); s != "" {
		return "the " + string(m) + " manager of " + s
	}
	return "the " + string(m) + " manager"
}
