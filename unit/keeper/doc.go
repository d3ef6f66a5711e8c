// Package keeper holds the processes of ours that stay with a job: the guard
// whose end tells systemd to stop it, and the step that becomes the command
// where systemd cannot execute it as it is.
package keeper
