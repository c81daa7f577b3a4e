// Package access manages API tokens, sessions and stream tickets, and the audit log.
//
// Guarantees. Only the digest of a token or a session is stored. A stream ticket opens one stream, once, within one minute and within
// the term of the leader that issued it. A tenant sees only its own tokens and audit records; operators see all records.
// Denied calls are counted, so that the audit log gets few records, however many there are.
//
// Not guaranteed. The last use of a token is recorded about once a minute: uses that a leader has not recorded when its
// term ends are lost, and so are denials that a coordinator has not recorded when it stops (they are in its own log).
package access
