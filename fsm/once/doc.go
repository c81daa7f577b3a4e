// Package once remembers the answers to writes by the idempotency keys of their calls.
//
// A caller whose call was cut off, for instance because the leader died, repeats it with the same key. [Do] has the command
// inside, and applies it if the key is new; otherwise its result is the one of the first time. So a write takes effect once,
// and the caller gets the answer that was lost.
//
// Guarantees. A key of a user stands for one request at a time: another request with it is refused. Refused commands are not
// remembered. The answers are bounded (I25): those that expire first go first.
//
// Submits and the verbs of jobs have keys of their own (package keys), which are remembered with the jobs.
package once
