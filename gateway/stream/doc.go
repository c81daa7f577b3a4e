// Package stream tells callers over server-sent events what coordinators stream: logs and metrics of jobs, and changes of the cluster.
//
// Subjects read a stream of a coordinator, and open it again at another one, after the last entry, when it breaks; package fanout
// shares one of them among all who watch the same. Relay writes what comes to one caller.
//
// Guarantees: a caller sees each entry once, in order, over the loss of a coordinator, as far as the coordinators' cursors allow. No
// caller shares with another tenant. A stream ends soon after its caller's token was revoked, and no stream ends because it cannot be
// found out whether it was.
//
// Not guaranteed: that a slow caller reads on for ever: package fanout lets go of what is too far behind.
package stream
