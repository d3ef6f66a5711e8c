// Package cgroup reads and ends units through the kernel's own interface,
// cgroup v2.
//
// Beside systemd it is our own witness: emptiness is "populated 0" in the
// recorded cgroup, or that cgroup's removal (Group). Where there is no manager
// it makes the unit itself (FindParent, Parent.Create, Unit). It starts no
// processes.
package cgroup
