// Package events streams changes of the state to watchers, from the entries that this replica has applied.
//
// Guarantees. A watcher gets each event of its topics and its tenant once and in order, with a cursor; it can resume
// from a cursor at any replica without gap or repeat. If events after the cursor are no longer in memory, the watcher
// gets an error and never continues behind a gap. A watcher of one tenant sees no job of another.
//
// Not guaranteed. Events are kept in memory, up to a number: a replica has none from before its start, and none that a
// snapshot skipped.
package events
