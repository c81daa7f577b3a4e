// Package table makes the decisions about the tasks of a node: which orders are fulfilled, which tasks are launched,
// stopped and reported, and which directories are removed. It is the agent's reconcile loop without the agent.
//
// Contract: a Table takes the orders and the events of tasks. It calls Work for every action, and takes the result
// later. Only one goroutine may use it. It is pure: no clock, no disk, no lock, no goroutine; times are passed in, so
// simulations can drive it. It does not know the goroutine that owns it, and cannot wait for it.
//
// Guarantees: orders are level-triggered, so a lost order does no harm. A task is handed to Work.Launch once, when its
// lease allows it, no other task has any of its GPUs, and its data is on the node. A task that is no longer wanted is
// stopped after that is recorded on disk, and only its end is reported. The end of a task is reported until the
// coordinators acknowledge it, and again if they order a task that has ended.
//
// Not guaranteed: that Work succeeds.
package table
