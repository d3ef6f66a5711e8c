// Package unit says what a job is: its specification, name, limits, identity,
// record and report, and the errors a caller can tell apart. It does no I/O.
package unit
