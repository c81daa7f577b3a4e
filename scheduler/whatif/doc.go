// Package whatif says what would become of a waiting job if something were different.
//
// Contract. A [Change] is what is supposed: another shape, queue, priority or limit of the job, another quota, jobs of its
// tenant that are canceled. [Try] runs the planner on the view with the change in it, and [Remedies] tries what could let
// the job start now. Like the planner they are pure: they read a view, and change nothing.
//
// Guarantees. Every answer is that of the real planner ([scheduler.Plan], [scheduler.Preempt], [scheduler.Foresee]), with
// everything else as it is: the jobs of all others wait and run as before, and come first where they would. What is said
// of later than now is made of the tenant's own jobs alone.
//
// Not guaranteed. That the job starts once the change is made: others submit, and nodes fail. No remedy that is found
// does not mean that there is none: a bounded number of single changes is tried.
package whatif
