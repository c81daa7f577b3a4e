// Package kernel applies log entries to a replicated state that is made of domains. It knows none of them.
//
// It owns the machine, the form of log entries and snapshots, tables with a running hash, log time, ids, and the list of the
// voters. A domain registers what it has with a [Domain]: records, commands, timers, and what must hold of it.
//
// Contract. A [Machine] is driven by one goroutine (Apply, StoreConfiguration, Restore); anybody may call View and
// Snapshot at any time. Every log entry is applied whole, and the resulting view is published once.
//
// Guarantees.
//   - Same log, same state: the result of Apply depends on the state and the entry and on nothing else, as long as the
//     domains keep to that. The purity test in package fsm reads all of them.
//   - Time comes from the log: Now is the latest stamp of all entries. Ids come from the log: index<<16 | position.
//   - A refusal is a result, equal on all replicas. An entry that cannot be decoded stops the replica (panic), because
//     skipping it would make this replica differ from one that understood it.
//   - Rows that a view hands out are immutable. A view costs nothing to hold but the memory of what changed since.
//   - Equal states make equal snapshots, to the byte, and have equal hashes. Restore changes all or nothing.
//   - Two domains that claim the same number are found when the first machine is made.
//
// Not guaranteed here: durability and order (the Raft log's part), and that a command means anything (the domain's).
package kernel
