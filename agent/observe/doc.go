// Package observe finds the progress, phases, evaluation results and complete checkpoints in the files that a task
// writes.
//
// It owns the journal of a task (file "reports" in its directory), and only reads the files of the task.
//
// Contract: New starts to watch before the command is started. The Watcher's Scanner returns findings, each once and in the
// order in which they happened, until its last look. Verify checks whether a checkpoint is unchanged since its
// registration.
//
// Guarantees: a checkpoint is found when it is complete (it was renamed into place, the program reported it, or the
// program ended successfully), and only where the job may have one: links that lead out are not followed. A finding
// that was not acknowledged is found again by the next agent, unchanged and in order. Reads are bounded, whatever the
// task puts in place of its files. A file system that hangs blocks only the looks at it.
//
// Not guaranteed: that a checkpoint that is written in place is found before its program has ended successfully. The
// journal is not synced: after a power cut the coordinators have ended the task before the node comes back.
package observe
