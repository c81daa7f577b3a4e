// Package apply decides what the commands of package work do: what is refused and why, what follows from what an agent
// reports, whether a job gets another attempt, what the passing of time ends.
//
// Guarantees. A command does all of it or is refused with a sentence. A job moves only as the table of transitions says; the
// leases of an attempt are granted all at once, and given back all at once. Nothing is believed of a task but under the token
// of its lease. A command of an older entry does what it did when that version was the newest.
//
// Not guaranteed here: that a plan is good, only that it is legal.
package apply
