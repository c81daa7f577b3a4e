// Package schedules keeps what is submitted again and again: jobs that start at the times of a cron expression.
//
// When a schedule is due next depends on a database of time zones, which replicas may have in different versions. So the leader
// computes it, and the state only compares: a run names the time for which the schedule was due, and the time at which it is due
// next. It is taken only if the schedule is still due at that time.
package schedules
