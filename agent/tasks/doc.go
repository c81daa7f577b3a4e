// Package tasks runs the tasks of a node: one goroutine owns what is decided (package table), others start, follow and end the
// processes and write down what must be found again.
//
// It owns the directories of the tasks, and what the agent writes in them: that a task is not wanted any more, why its GPU
// failed, how a task ended that never ran.
//
// Contract: Reconcile brings what runs toward the orders; Adopt takes up what an earlier agent left; Close lets the tasks go,
// which run on. What others ask of the tasks goes through the methods of Tasks.
//
// Guarantees: a task is launched at most once, whenever the agent dies, and does not notice the agent's death; the agent that
// comes back finds it, with its exact exit code when it ended meanwhile (package shim). The end of a task is reported when no
// process of it is left, after what it wrote last. The goroutine that owns the tasks waits for no disk, process or driver:
// that is for workers, and it has no way to wait for itself (package owner). What must be on disk before something else
// happens is on disk before: that a task is not wanted any more and why its GPU failed, before its shim is told to stop it;
// that a task never ran, before that is reported.
//
// Not guaranteed: isolation of tasks from each other.
package tasks
