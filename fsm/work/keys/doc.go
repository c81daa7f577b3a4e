// Package keys remembers the idempotency keys of requests: what each was first used for, until it expires.
//
// Guarantees. A request that is sent again with its key is answered as the first one was, or refused if it is another request.
// There is one row of a key and a tenant at a time (I4).
package keys
