// Package raftnode hosts a replicated state machine on hashicorp/raft: log and
// snapshots on disk, mutual TLS between the replicas, membership, leadership,
// a proposer that packs waiting commands into one log entry, and linearizable
// reads.
//
// Contract. The caller hands over a StateMachine and commands as opaque bytes.
// The node applies committed entries in order, one result for each command, and
// gives each caller of Propose the result of its own command.
//
// Guarantees:
//   - A command that Propose answered without error is on the disks of a
//     majority, and is applied on this replica.
//   - A write has three outcomes. Answered (the result may still be a refusal of
//     the state machine). Not sent: the error matches ErrNotSent, and nothing
//     was or will be written. Unknown: the error matches ErrUnknownOutcome, and
//     the command may be applied now, later, or never.
//   - ReadIndex followed by WaitApplied sees every write that was answered
//     before ReadIndex was called, on whichever replica it was proposed.
//   - After the first failed write to its disk the node writes nothing more,
//     says nothing more to the others and stops.
//   - Every goroutine has ended when Shutdown has returned.
//
// Not guaranteed: that a command whose outcome is unknown is applied at most
// once when it is proposed again (the state machine must recognise it), that
// IsLeader and Leader are true by the time the caller looks at the answer, and
// fairness between callers beyond first come, first packed.
package raftnode
