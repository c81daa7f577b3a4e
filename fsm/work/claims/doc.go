// Package claims keeps places for waiting jobs: capacity that is promised to the next attempt of one job while those that still
// hold it are asked to leave.
//
// A preemption is a row that goes through steps, each in the log, so that a new leader finds it where the last one left it:
//
//  1. The intent: PreemptJobs makes the claim and asks its victims to stop. They get a notice, and save a checkpoint.
//  2. A checkpoint that a victim commits after that closes its notice early.
//  3. The victims leave one by one. The GPUs that they release are kept: nobody else is placed there.
//  4. When the last one has left, the same entry grants the places to the job that the claim is for.
//
// A hold is a claim without victims. It is made by the entry in which the attempt of a gang ends because of a fault of the
// infrastructure, and keeps the places of the tasks that were not at fault: so that one bad node costs one node, and nobody is
// preempted for the others. The scheduler adds what is missing.
//
// Guarantees. No GPU is in two claims. A claim is for a job that is QUEUED. It ends when the job is placed or no longer waits,
// and at the latest at Until, so a victim that cannot be reached does not keep its node's GPUs from all others.
package claims
