// Package fsm is the replicated state of Mind: jobs, leases, nodes, queues, checkpoints, idempotency keys and
// coordinators, the commands that change them and the queries that read them.
//
// Contract. A [Machine] is driven by one goroutine (Apply, ApplyBatch, StoreConfiguration, Restore); anybody may call
// View and Snapshot at any time. Every log entry is applied whole, and the resulting [View] is published once.
//
// Guarantees.
//   - Same log, same state: the result of Apply depends on the state and the entry and on nothing else. There is no
//     clock, no randomness, no I/O, no goroutine and no map order in here; purity_test.go holds that.
//   - Time comes from the log: now = max(previous now, the stamp of the entry).
//   - Ids come from the log: index<<16 | position. A fencing token is the index of the entry that granted the lease.
//   - A refusal is a result, equal on all replicas. An entry that cannot be decoded stops the replica (panic), because
//     skipping it would make this replica differ from one that understood it.
//   - Rows that a View hands out are immutable. A View costs nothing to hold but the memory of what changed since.
//
// Not guaranteed here: durability and order (the Raft log's part), that the caller may see what it asks for (the
// coordinator checks tenants on reads), that a plan is good (only that it is legal).
package fsm
