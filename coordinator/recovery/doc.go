// Package recovery decides how a coordinator without data starts, and saves, restores, verifies and recovers the state.
//
// Guarantees. A coordinator without data forms a cluster only if all others of its list have no data either, or have
// said so earlier during the life of its process. So a coordinator that lost its disk does not vote again in a term in
// which it may have voted before. A snapshot is sent only after the audit log has recorded it, unless the call asked
// for stale. Verify changes nothing. Recover keeps the old data beside the new data. A restored or recovered cluster
// holds its jobs until the nodes have reported what they run.
//
// Not guaranteed. Recover cannot know that the previous voters will never run again: the operator confirms it.
package recovery
