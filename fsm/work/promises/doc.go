// Package promises holds the promised starts of blocked jobs: for each, the time from which on, at the latest, its places are
// free for it, and the places.
//
// A promise is a plan that is kept. The leader makes it from the time limits of what runs (scheduler.Reserve), and lets no
// other job in that would delay it, unless that job has a higher priority. It is a row, so every replica shows it, and a new
// leader keeps it. [PromiseStarts] replaces all promises at once.
//
// Guarantees. A promise is for a job that waits, and that has no claim of a preemption. There are never more than the policy
// has reservations. Its places exist. No two promises have a GPU at the same time. A promise ends with the wait of its job,
// with one of its places, and with the policy that allowed it.
//
// Not guaranteed. That the start is kept: a job of a higher priority, a lost node, or a job that starts late or does not stop
// at its limit can delay it. Then the row says which (Cause). Placements are not held against promises when they are applied.
package promises
