// Package history makes a trace from the jobs that a cluster's state still has, with the current nodes, queues, quotas
// and policy.
//
// Durations that the state does not have are estimated. The remaining time of a job that has not ended is the
// scheduler's prediction. An array element without a row gets the median duration of those elements of its array whose
// rows remain. [About] says how many there are.
package history
