// nothing is the least that a program in Go can do: what it takes to start it
// and to see it end is what no other can do without.
package main

func main() {}
