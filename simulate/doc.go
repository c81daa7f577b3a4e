// Package simulate runs the scheduler over a trace of jobs, in virtual time.
//
// It is the very scheduler of a cluster: scheduler.Plan, asked whenever something ends or arrives, on a view that this
// package keeps instead of the replicated state. Each placement is checked as the state would check it.
//
// Guarantees. Equal traces, inventories, policies and seeds give equal runs. No GPU is given twice. The scheduler is told
// nothing that has not happened yet: of durations only those of jobs that have ended.
//
// Not simulated: the time that a start takes, failures, and quotas. A job that is preempted starts again from its last
// checkpoint, and pays for it: see [Run].
package simulate
