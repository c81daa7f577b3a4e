// Package output streams what tasks wrote, logs and metrics, from the agents that keep it or from the log archive.
//
// Guarantees. A stream sends each line of each rank once, in the order of the rank, and a cursor behind it; a reader that
// comes back with the cursor, at any replica, goes on there without a gap and without a repetition. What neither the node nor
// the archive has is named in the stream and at its end, never skipped in silence. A replica keeps nothing of a stream: where a
// reader stands is in the cursor. What is held in memory for one reader is bounded.
//
// Not guaranteed. The order of lines of different ranks is that of their nodes' clocks, among lines that arrive together.
package output
