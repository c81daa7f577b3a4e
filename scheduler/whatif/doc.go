// Package whatif says what would happen to a waiting job after a change.
//
// Contract. A [Change] is supposed: another shape, queue, priority or limit of the job, another quota, or canceled jobs
// of its tenant. [Try] runs the planner on a view with the change, and [Remedies] finds changes with which the job
// would start now. Like the planner they are pure: they read a view, and change nothing.
//
// Guarantees. Every answer is the planner's own ([scheduler.Plan], [preempt.Choose], [foresee.Starts]), with
// everything else as it is: the jobs of others wait and run as before, and keep their places in the order. Statements
// about later times use the tenant's own jobs only.
//
// Not guaranteed. That the job starts once the change is made: other users submit, and nodes fail. That every remedy is
// found: a bounded number of single changes is tried.
package whatif
