// Package disk is the disk of one replica, in memory: raft's log, its votes and its snapshots.
//
// What a write answered is there after a crash; what was under way may be there or not. A disk can be slow, fail, or be a
// forgetful one, which is a fault that the checkers must notice. It outlives the processes that mount it, one at a time.
package disk
