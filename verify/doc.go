// Package verify decides, from observations alone, whether a job has ended.
//
// It performs no I/O, knows no clock but the one it is given, and imports
// nothing of unitward: the same observation always yields the same verdict.
// The rule that everything here serves: a job is confirmed only when the exit
// of its main process is known and its unit holds no process; an error is
// never a fact, and "unavailable" is never "empty".
package verify
