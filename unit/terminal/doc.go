// Package terminal makes pseudo-terminals and joins one to the terminal that a
// user sits at: raw mode and its end, the window's size, and the bytes between
// the two.
package terminal
