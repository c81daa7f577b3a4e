// Package access has who may call and who did what: API tokens, sessions, and the audit log with the calls that were denied.
//
// Guarantees. Only the digest of a token or a session is in the state. A session that came from an API token has its user and
// permissions, and does not outlive it (I23). The action of a caller is recorded in the entry that applies it: a replica that has
// the change has the record. The audit log is four logs with a bound each, so that neither submits nor sign-ins nor denials push
// out what operators did; within each, Seq counts without a gap.
//
// Not guaranteed here: that a token has not expired, and that its permissions suffice. The server of a call checks that.
package access
