// Package raftnode hosts a replicated state machine on hashicorp/raft: log and
// snapshots on disk, mutual TLS between the replicas, membership, leadership,
// a proposer that packs waiting commands into one log entry, and linearizable
// reads.
//
// Contract: the caller provides a StateMachine, and commands as opaque bytes. The node applies committed entries in
// order, one result for each command, and gives each caller of Propose the result of its own command.
//
// Guarantees:
//   - A command that Propose answered without error is on the disks of a
//     majority, and is applied on this replica.
//   - A write has one of three outcomes. It is answered, although the result may be a refusal of the state machine. Or
//     it is not sent: the error matches ErrNotSent, and nothing was or will be written. Or its outcome is unknown: the
//     error matches ErrUnknownOutcome, and the command may be applied now, later, or never.
//   - After ReadIndex and WaitApplied the state has every write that was answered before ReadIndex was called, on any
//     replica.
//   - After the first failed write to its disk the node writes nothing more, sends the others nothing more, and stops.
//   - Every goroutine has ended when Shutdown has returned.
//
// Not guaranteed: that a command whose outcome is unknown is applied at most once when it is proposed again (the state
// machine must recognise it), that the results of IsLeader and Leader still hold when the caller reads them, and
// fairness between callers except that commands are packed in their order.
package raftnode
