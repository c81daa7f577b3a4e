// Package table decides what becomes of the tasks of a node: which orders are fulfilled, which task may be launched, which is
// stopped, what is reported, and which directory goes. It is the agent's reconcile loop without the agent.
//
// Contract: a Table is told what the orders want and what happened to tasks, and says what is to be done through Work, which
// tells it later how that went. One goroutine uses it. It is pure: no clock, no disk, no lock, no goroutine; instants are
// handed in, so simulations can drive it. It knows nothing of the goroutine that owns it, and cannot wait for it.
//
// Guarantees: orders are level-triggered, so a lost one costs nothing. A task is handed to Work.Launch once, after its lease
// allows it, when no other task has any of its GPUs, and its data is here. A task that is not wanted any more is stopped after
// that is on disk, and nothing is reported of it but its end. The end of a task is reported until the coordinators have it,
// and again when they name a task that has ended.
//
// Not guaranteed: that what it wants done is done. Work tells.
package table
