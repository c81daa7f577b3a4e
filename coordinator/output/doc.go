// Package output streams the logs and metrics of tasks, from their agents or from the log archive.
//
// Guarantees. A stream sends each line of each rank once, in the order of the rank, with a cursor; a reader that
// reconnects with the cursor, at any replica, resumes there without gap or repeat. Missing output, which neither the
// node nor the archive has, is reported in the stream and at its end, and never skipped silently. A replica keeps no
// state of a stream: the cursor contains the reader's position. The memory for one reader is bounded.
//
// Not guaranteed. Lines of different ranks that arrive together are ordered by the clocks of their nodes.
package output
