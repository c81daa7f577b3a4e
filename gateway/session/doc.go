// Package session lets users call from a browser: it decides when a cookie is a credential, and finds out whose session it is.
//
// Guarantees. A cookie counts only in a request that a page of this origin made (Sec-Fetch-Site), without an Authorization
// header, under the one name that fits the connection, and once. It is set only where no one on the way can read it: with HTTPS,
// or on loopback. A session that was revoked is refused within a second at every gateway that reaches the leader, however many
// event streams it has open: all sessions in use at a gateway are asked about in one call. Only the SHA-256 of a session's secret
// leaves the gateway. Unknown sessions are limited as unknown tokens are. Each request causes at most one question, and
// a session whose time is over is refused without one.
//
// Not guaranteed. While no leader can be reached, a session that one coordinator knows goes on.
package session
