// Package stream serves the coordinators' streams to callers as server-sent events: logs and metrics of jobs, and changes
// of the cluster.
//
// Subjects read a stream of a coordinator and, when it breaks, reopen it at another coordinator after the last entry.
// Package fanout shares one stream among all callers that watch the same subject. Relay writes a stream to one caller.
//
// Guarantees: a caller sees each entry once, in order, also when a coordinator is lost, as far as the coordinators' cursors
// allow. Tenants never share a stream. A stream ends soon after its caller's token was revoked, but not because the token
// cannot be checked.
//
// Not guaranteed: that events wait forever for a slow caller: package fanout drops events that are too far behind.
package stream
