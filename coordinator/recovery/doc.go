// Package recovery decides how a coordinator without data begins, and saves, restores, verifies and recovers the state.
//
// Guarantees. A coordinator without data begins a cluster only when all others of its list have no data either, or have said so
// before in the life of its process: one that lost its disk does not vote again for what it has forgotten. A state is handed out
// only after the audit log says so, unless the call asked for stale. Verify changes nothing. Recover keeps the data as it was beside
// the new one. A restored or recovered cluster holds its jobs until the nodes have said what they still run.
//
// Not guaranteed. Recover cannot know that the voters of before will never run again: the operator does.
package recovery
