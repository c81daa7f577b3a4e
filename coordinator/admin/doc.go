// Package admin shows the cluster and its nodes, and changes what operators configure: queues, quotas, launchers, drains.
//
// Guarantees. A tenant sees only its own jobs and counts; GPUs and nodes are visible to all. Operators see how much work
// other tenants have, but not whose. A preview of a drain reports what the drain would do if it started now, and changes
// nothing. A node is forgotten only if there is no sign that it is alive.
//
// Not guaranteed. Utilization of GPUs and the last contact with a node are in the leader's memory: without a leader they
// are missing.
package admin
