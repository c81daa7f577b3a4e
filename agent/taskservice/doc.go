// Package taskservice serves a node's data to coordinators: logs and metrics of its tasks, and the contents of its data
// cache.
//
// Guarantees: a stream that follows a task ends when the task has ended and all of its output was sent. A task that the
// agent does not know yet is not reported as missing. Messages are bounded, and so are reads of a task's files.
//
// Not guaranteed: that a log is complete. The oldest part of a long log is removed, and a line says so.
package taskservice
