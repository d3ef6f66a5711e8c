// Package cgroup reads and ends units through the kernel's own interface,
// cgroup v2. Here it is our own witness beside systemd's word: emptiness is
// "populated 0" in the recorded cgroup, or that cgroup's removal.
package cgroup
