// Package rest connects commands to a gateway: the REST client, its errors, paging, streams and polling, and the flags and
// completions that use it.
//
// Every write carries an idempotency key, so a call whose connection broke is repeated safely. A stream that breaks
// resumes without gap or repeat. An error says what to do next. The package does not depend on kinds of objects: the
// packages of the commands do.
package rest
