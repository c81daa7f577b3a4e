// Package admin shows the cluster and its nodes, and changes what operators set: queues, quotas, launchers, drains.
//
// Guarantees. A tenant is shown its own jobs and counts only; what GPUs and nodes there are is everybody's. Operators are told how
// much of other tenants' work there is, and not whose. A preview of a drain says what the drain would do if it began now, and does
// nothing. A node is forgotten only when nothing says that it may be alive.
//
// Not guaranteed. Use of GPUs and when a node was last heard of are what the leader has in memory: without a leader they are left
// out.
package admin
