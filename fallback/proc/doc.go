// Package proc reads /proc: who a process is, and what it was started with.
//
// A process is opened once and then asked: the directory of /proc that was
// opened stays that process's, so that its number can be reused meanwhile
// without one answer being another's.
package proc
