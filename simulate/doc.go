// Package simulate runs the scheduler over a trace of jobs, in virtual time.
//
// It is the very scheduler of a cluster: scheduler.Plan, asked whenever something ends or arrives, on a view that this
// package keeps instead of the replicated state. Each placement is checked as the state would check it.
//
// Guarantees. Equal traces, inventories, policies and seeds give equal runs. No GPU is given twice. The scheduler is told
// nothing that has not happened yet: of durations only those of jobs that have ended.
//
// Of a cluster with fair share, the accounts that decay, the budgets of a month and the GPUs by type are kept by the code
// that keeps them in the state, and the planner reads them as it reads the state's.
//
// Not simulated: the time that a start takes, failures, maintenance and reservations, and preemption for a higher priority or
// for what a queue is guaranteed. A job that is preempted starts again from its last checkpoint, and pays for it: see [Run].
package simulate
