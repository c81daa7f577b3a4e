// Package tasks runs the tasks of a node. One goroutine owns the decisions (package table); others start, follow and
// end the processes, and write the records that must survive the agent.
//
// It owns the directories of the tasks, and the files that the agent writes in them: the record that a task is no
// longer wanted, the reason why its GPU failed, and the exit of a task that never ran.
//
// Contract: Reconcile brings the running tasks toward the orders; Adopt takes over the tasks of an earlier agent; Close
// detaches from the tasks, which keep running. Other goroutines reach the tasks through the methods of Tasks.
//
// Guarantees: a task is launched at most once, whenever the agent dies, and keeps running without the agent; the next
// agent finds it, with its exact exit code if it ended meanwhile (package shim). The end of a task is reported when
// none of its processes is left, after everything that it wrote. The goroutine that owns the tasks waits for no disk,
// process or driver: workers do that, and the owner cannot wait for itself (package owner). Files are written before
// the actions that depend on them: the record that a task is no longer wanted, and the reason why its GPU failed,
// before its shim is told to stop it; the exit of a task that never ran, before its end is reported.
//
// Not guaranteed: isolation of tasks from each other.
package tasks
