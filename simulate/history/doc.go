// Package history makes a trace of what a cluster did: of the jobs that its state still has, with the nodes, queues, quotas and
// the policy of today.
//
// What the state cannot know is guessed, and counted: how long jobs go on that are not over is predicted as the scheduler
// predicts it, and how long elements of arrays took whose rows are gone is taken from the others of their array.
package history
