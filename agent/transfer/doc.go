// Package transfer lets agents get checkpoints from each other: it serves those of its node, and fetches those of others.
//
// Contract: Service serves the files of checkpoints, and the agreement of the tasks of an attempt on the one that they resume
// from. Client calls the services of other agents.
//
// Guarantees: only what the coordinators say is registered by this node is served, only to a node with a task that needs it,
// and only from directories that agents made for the job; no link is followed out of them. A file is sent only while it is
// the one that was listed. What is sent is bounded in streams, in reads from the disk, and in bytes per second. Client
// compares a list with the manifest that was registered before anything is fetched.
//
// Not guaranteed: that the contents of the files are those that were registered. The manifest has their names and sizes.
package transfer
