// Package rpc reads what a client writes: lines of bounded length, with a
// JSON-RPC 2.0 request each, and their parameters, strictly. What two readers
// could understand in two ways is refused.
package rpc
