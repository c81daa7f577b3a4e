// Package gateway speaks REST and server-sent events to the world, and gRPC to
// the coordinators.
//
// Contract: a request is authenticated, authorised, checked against the
// published schema, translated to one gRPC call and answered in the published
// envelope, in that order; nothing is called for a request that fails a check.
// A gateway keeps no state but, if it is told to, a copy of listed jobs for
// others to read (package jobcache), which it never reads itself: any number of them may stand side by side, and one
// that dies costs its callers a connection.
//
// Guarantees: while the leader changes, a caller sees a slow answer and not an
// error, for as long as its time allows. A write is repeated only under an
// idempotency key, which the gateway mints when the caller gave none. Event
// streams go on over the loss of a coordinator without gap or repeat, as far
// as the coordinator's cursors allow. The text of internal errors never
// reaches a caller.
//
// Not guaranteed: that a write without the caller's own Idempotency-Key
// happens once when the caller itself repeats it.
package gateway
