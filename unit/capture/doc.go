// Package capture keeps the output of a job on disk, within a cap, and reads
// it again.
//
// What is there says everything; there is no index that could disagree. In the
// job's directory, for each stream:
//
//	stdout                        the head: the first bytes, at most half the cap
//	stdout.0000000033554432       a segment of the tail; its first byte is
//	                              byte 33554432 of the stream
//	stdout.0000000099614720.end   empty: the stream was closed after so many bytes
//
// Bytes between two files were dropped. A segment without a byte only says how
// far the stream has come. A new segment is made, empty, before the oldest are
// removed, and written to after that: the bytes on disk are never more than
// the cap, and the newest position is on disk at every moment. What a process
// left that was killed is as good as what one left that ended.
//
// The files have mode 0600. No link is followed, and the reader refuses a file
// of such a name that is not a regular file of this user alone.
package capture
