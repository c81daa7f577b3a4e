// Package simulate runs the scheduler over a trace of jobs, in virtual time.
//
// It runs the scheduler of a real cluster, scheduler.Planner, whenever a job ends or arrives. The scheduler reads a
// view that this package keeps instead of the replicated state, and each placement is checked as the state would check
// it.
//
// Guarantees. Equal traces, inventories, policies and seeds give equal runs. No GPU is leased to two jobs at a time.
// The scheduler learns nothing before it has happened: it knows the durations only of jobs that have ended.
//
// For a cluster with fair share, the code of the replicated state keeps the accounts that decay, the budgets of a month
// and the GPUs by type.
//
// After a plan, jobs are preempted for a higher priority and for what a queue is guaranteed, by package preempt as in a
// cluster. Maintenances and reservations are known from when they were created, and begin and end at their times.
//
// Not simulated: the time that a start or a notice takes, and failures. A preempted job starts again from its last
// checkpoint, and loses the time that [Run] describes.
package simulate
