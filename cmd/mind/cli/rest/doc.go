// Package rest is the way from a command to a gateway: the client, its errors, pages, streams and polling, and the flags and
// completions that go with them.
//
// Every write carries an idempotency key, so a call whose connection broke is made again. A stream that breaks goes on without
// gap or repeat. An error says what to do next. It knows no kind of object: the packages of the commands do.
package rest
