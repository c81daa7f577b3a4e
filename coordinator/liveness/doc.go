// Package liveness decides, for one leader in one term, which nodes are silent, which leases are renewed, and which
// nodes may be proposed to be declared lost: the leader's part of rules R1 to R3 of docs/operate/failure-model.md.
//
// It does no I/O, starts no goroutine and has no clock: messages, votes and the time are passed in, and the caller sends,
// proposes or logs its results. The coordinator drives it, and so does chaos/sim.
//
// Guarantees. A node's silence counts from the start of the term at the earliest, and only while the leader could hear it:
// after the process was suspended, or without a proof of leadership, every node gets a new grace period. A heartbeat is
// acknowledged only after a proof of leadership that began after it arrived. A node is proposed as lost only with the votes
// of a majority, and is not renewed through other nodes meanwhile. The state checks the proposal again.
//
// A Term is made when the term begins and dropped when it ends; nothing in it is reset. It is safe for concurrent use; a
// Bench is not.
package liveness
