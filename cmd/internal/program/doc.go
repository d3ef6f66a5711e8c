// Package program is what the programs of unitward have in common: how each is
// entered, says which it is, and stays with a client.
package program
