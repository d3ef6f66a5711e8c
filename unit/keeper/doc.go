// Package keeper holds the processes of ours that stay with a job: the guard
// whose end tells systemd to stop it, the step that becomes the command where
// systemd cannot execute it as it is, and the reaper between a keeper and a
// main process of its own, which ends all of the job when the keeper is gone.
package keeper
