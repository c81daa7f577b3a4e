// Package gateway serves REST and server-sent events to callers, and calls the coordinators over gRPC.
//
// Contract: a request is authenticated, authorized, checked against the published schema, translated to one gRPC call and
// answered in the published envelope, in that order. A request that fails a check causes no call. A gateway keeps no state
// except, if configured, a copy of listed jobs for others (package jobcache), which it never reads. Any number of gateways
// can run side by side, and one that dies costs its callers a connection.
//
// Guarantees: while the leader changes, a caller sees a slow answer and not an error, as long as its timeout allows. A
// write is repeated only with an idempotency key, which the gateway creates if the caller gave none. Event streams continue
// after the loss of a coordinator without gap or repeat, as far as the coordinators' cursors allow. The text of internal
// errors never reaches a caller.
//
// Not guaranteed: that a write without the caller's own Idempotency-Key happens once if the caller repeats it.
package gateway
