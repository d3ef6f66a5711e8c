// Package dbus encodes and decodes D-Bus messages, as far as a client of a
// service manager needs it (D-Bus Specification, "Marshaling" and "Message
// Format"). It does no I/O.
//
// A program that speaks with a manager for ten milliseconds pays for every
// type whose way is found by reflection, and for every package that a general
// library brings along: here the values that a job's life needs are written
// and read by a switch. What is made of the same bytes is compared with such a
// library by the tests.
//
// The values of D-Bus are these in Go: y byte, b bool, n int16, q uint16,
// i int32, u uint32, x int64, t uint64, d float64, s string, o ObjectPath,
// g Signature, h UnixFD, v Variant. A slice is an array and a struct is a
// struct, both ways of writing; see Decode for what is read.
package dbus
