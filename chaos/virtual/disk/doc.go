// Package disk simulates the disk of one replica in memory: raft's log, its votes and its snapshots.
//
// An acknowledged write survives a crash; a write in progress may survive or not. A disk can be slow, fail, or be
// forgetful, which is a fault that the checkers must notice. It outlives the processes that mount it, one at a time.
package disk
