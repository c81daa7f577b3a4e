// Package recovery decides how a coordinator without data starts, and saves, restores, verifies and recovers the state.
//
// Guarantees. A coordinator without data forms a cluster only if all others of its list have no data either, or have said
// so earlier in the life of its process: so one that lost its disk does not vote again on what it has forgotten. A snapshot
// is sent only after the audit log has recorded it, unless the call asked for stale. Verify changes nothing. Recover keeps
// the old data beside the new. A restored or recovered cluster holds its jobs until the nodes have reported what they run.
//
// Not guaranteed. Recover cannot know that the previous voters will never run again: the operator confirms it.
package recovery
