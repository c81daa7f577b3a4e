// Package transfer transfers checkpoints between agents: it serves the checkpoints of its node, and fetches checkpoints
// of other nodes.
//
// Contract: Service serves the files of checkpoints, and the agreements of the tasks of an attempt on the checkpoint
// that they resume from. Client calls the services of other agents.
//
// Guarantees: a checkpoint is served only if the coordinators confirm that this node registered it, only to a node with
// a task that needs it, and only from directories that agents made for the job; no link is followed out of them. A file
// is sent only while it is the one that was listed. Sending is bounded in streams, in reads from the disk, and in bytes
// per second. Client compares a list with the registered manifest before it fetches a file.
//
// Not guaranteed: that the files have the same contents as when they were registered. The manifest has only their names
// and sizes.
package transfer
