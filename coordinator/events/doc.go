// Package events tells watchers what changes in the state, from what this replica has applied.
//
// Guarantees. A watcher gets each event of its topics and its tenant once and in order, with a cursor; it goes on from a cursor at
// any replica without a gap and without a repetition. When events between the cursor and now are not remembered any more, the
// watcher is told so, and never goes on behind a gap. A watcher of one tenant sees no job of another.
//
// Not guaranteed. Events are kept in memory, up to a number: a replica remembers none from before its start or from what a
// snapshot skipped.
package events
