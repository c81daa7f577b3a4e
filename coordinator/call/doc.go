// Package call knows the caller of a call and its permissions, and translates errors for the caller.
//
// It has no state and makes no calls. MayCall checks a certificate's role against the protos. ToStatus is the only place
// where an internal error becomes a gRPC status and, for a write, an outcome: refused (an error without an outcome), not
// sent (it had no effect and never will), or unknown.
package call
