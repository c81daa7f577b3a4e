// Package lifecycle has what the verbs of work share: a transaction over the tables, and what follows in it from a change of a job
// or a node. Whether a job gets another attempt, what its end means for the jobs that wait for it, and the end of its leases, claims
// and checkpoints.
//
// Guarantees. A job moves only as the table of transitions says. The leases of an attempt are granted all at once, and given
// back all at once. Reads write nothing: what a command does to the elements of an array is put in when it is done.
package lifecycle
