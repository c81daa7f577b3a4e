// Package machine runs flows. It is pure: an [Advance] takes a program, the stored frame of an execution and the results that have come
// since, and returns the next frame, the effects to carry out and the events to record. It has no clock, no chance and no goroutines, so
// two replicas that advance the same frame by the same results get the same bytes.
//
// The frame is a continuation: the tree of the bodies that run, where each stands, the names they have bound, and the number of the wait
// of each effect. History is never replayed. Stored frames outlive a program that is replaced, because an execution keeps its version.
//
// Guarantees.
//   - An Advance is bounded: by fuel (operations of expressions and started blocks), by the number and the bytes of effects, and by the
//     bytes of the frame. When fuel runs out it stops between two blocks and says that there is more. However it is cut, the steps and
//     the results are the same.
//   - Each effect has a number, its wait, that is never used again in the execution. A result for a wait that was given up is ignored.
//   - Waits that an execution gives up are canceled by an effect, so none is left behind.
//   - A failed execution keeps its frame where it failed, so that it can be retried from any block that it has reached.
package machine
