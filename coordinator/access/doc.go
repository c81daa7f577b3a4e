// Package access keeps what lets callers in, tokens and stream tickets, and what they did: the audit log.
//
// Guarantees. A token is stored by its digest alone. A stream ticket opens one stream, once, within its minute and within the
// term of the leader that made it. A tenant is shown its own tokens and audit records only; operators are shown all records.
// Denied calls are added up, so that however many there are, the audit log gets few records.
//
// Not guaranteed. When a token was used last is written down about once a minute: what a leader has not written when its term
// ends is forgotten, and so are denials that a coordinator has not written when it stops (they are in its own log).
package access
