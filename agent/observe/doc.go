// Package observe watches what a task writes: progress, phases, results of evaluations, and checkpoints that are complete.
//
// It owns the journal of a task (file "reports" in its directory), and reads the files that the task appends to. It writes
// nothing else.
//
// Contract: New begins to watch before the command is started; the Watcher's Scanner returns findings, each once and in the
// order in which they happened, until its last look. Verify says whether a checkpoint is what it was when it was registered.
//
// Guarantees: a checkpoint is found when it is complete (it was renamed into place, or the program said so, or it ended well),
// and only where the job may have one: no link leads out. What was found and not acknowledged is found again by the next agent,
// as it was and in its order. What is read is bounded, whatever the task puts in the place of its files. A file system that
// hangs holds up nothing but the looks at it.
//
// Not guaranteed: that a checkpoint which is written in place is found before its program has ended well. The journal is not
// synced: after a power cut the coordinators have ended the task before they hear of it.
package observe
