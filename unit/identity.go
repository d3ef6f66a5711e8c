package unit

// Identity is everything by which a job is recognised. It is recorded by
// unitward itself and checked before anything is signalled or believed.
type Identity struct {
	// Host is the machine id (machine-id(5)); empty when the host has none.
	Host string `json:"host"`
	// Boot is the kernel's boot id (random(4)).
	Boot string `json:"boot_id"`
	// UID is the effective user id of the launcher.
	UID int `json:"uid"`
	// Isolation is the rung: service, scope, cgroup or group.
	Isolation string  `json:"isolation"`
	Manager   Manager `json:"manager,omitempty"`
	// Far is the manager, where it is not one of this machine's own; nil where
	// it is. Cgroup and PID are then that machine's, and are only told.
	Far *Far `json:"far,omitempty"`
	// Unit is the unit's full name.
	Unit string `json:"unit"`
	// Nonce is a random number of this start, which the unit carries too: a
	// unit whose start was never answered is recognised by it.
	Nonce string `json:"nonce"`
	// InvocationID is systemd's id of this start; empty until it is known.
	InvocationID string `json:"invocation_id,omitempty"`
	// Cgroup is the unit's cgroup below the cgroup root; empty until known.
	Cgroup string `json:"cgroup,omitempty"`
	// CgroupInode is the inode number of that directory; 0 until known.
	CgroupInode uint64 `json:"cgroup_inode,omitempty"`
	// PID is the main process; 0 until known.
	PID int `json:"pid,omitempty"`
	// StartTime is when that process started, in clock ticks since boot
	// (field 22 of proc_pid_stat(5)); 0 until known.
	StartTime uint64 `json:"start_time,omitempty"`
	// PIDNamespace is the inode of the pid namespace of the launcher, in which the
	// pids of the record mean the processes that it names (pid_namespaces(7)); 0 is
	// not known.
	PIDNamespace uint64 `json:"pid_namespace,omitempty"`
}

// Remote is where the manager is; zero for one of this machine's own.
func (id *Identity) Remote() Remote {
	if id.Far == nil {
		return Remote{}
	}
	return id.Far.Remote
}
