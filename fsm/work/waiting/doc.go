// Package waiting lists the jobs that the scheduler may place: by class and lane for the scheduler, by queue and age for those
// who ask for their place, and why the jobs of each class wait.
//
// A lane is the jobs of one user of a tenant in a class, priority first, then age. It is born with its first job and dies with
// its last one, as a class does, and its reason with that. All but the reasons is derived from the jobs.
package waiting
