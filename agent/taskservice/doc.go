// Package taskservice serves what coordinators read of a node: logs and metrics of its tasks, and its data cache.
//
// Guarantees: a stream that follows a task ends when the task has ended and all that it wrote was sent. What the agent does not
// know yet is not taken for gone. Messages are bounded, and so is what is read of a task's files.
//
// Not guaranteed: that a log is whole. The oldest part of a long one is removed, which is said in its place.
package taskservice
