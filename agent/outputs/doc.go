// Package outputs owns the output directories of jobs that do not set one: where they are, which of them tasks use, and
// when they are removed.
//
// Contract: Dirs.Of returns where an attempt writes and where its job keeps checkpoints. A task's use of them starts with
// Use and ends with Leave. A Cleaner removes unneeded directories.
//
// Guarantees: a directory that a task uses is kept. An empty one is removed when its last user leaves it. Any other is
// removed only if it was not changed for the configured time, its job has ended, and a coordinator says that it contains no
// registered checkpoint; without that answer it is kept. Directories that users set are never removed.
//
// Not guaranteed: a limit on the space that outputs take. Package isolation/disk bounds that of a job.
package outputs
