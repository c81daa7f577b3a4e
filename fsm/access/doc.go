// Package access has who may call and who did what: API tokens, and the audit log with the calls that were denied.
//
// Guarantees. Only the digest of a token is in the state. The action of a caller is recorded in the entry that applies it: a replica that has the change has the record. The audit log is three logs with a bound each, so that neither
// submits nor denials push out what operators did; within each, Seq counts without a gap.
//
// Not guaranteed here: that a token has not expired, and that its permissions suffice. The server of a call checks that.
package access
