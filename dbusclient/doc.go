// Package dbusclient speaks with a systemd manager over D-Bus: it finds the
// manager, starts transient units, follows them through lost signals, lost
// replies and lost connections, and reads what the manager knows of them.
//
// Signals are wake-ups only. What is believed is what a property read said
// after one.
package dbusclient
