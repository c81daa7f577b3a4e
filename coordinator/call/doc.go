// Package call says who makes a call, what the caller may do, and what a failure means to the caller.
//
// It has no state and makes no calls. Callers is the one table of roles: a method that is not in it, nobody may call.
// ToStatus is the one place where an error inside becomes a gRPC status and, for a write, an outcome: refused (an error
// with no outcome), not sent (it had no effect and never will), or unknown.
package call
