// Package jobview converts jobs to the form that users see: the job itself, its status, the reason for it, and an
// explanation.
//
// Guarantees. It reads nothing but a view of the state: the same view gives the same answer on every replica, and nothing
// blocks. Every text that names a state of a job names the status that the job shows.
//
// Not guaranteed: that the caller may see the job (call.Job checks it), and when a job starts (package forecast).
package jobview
