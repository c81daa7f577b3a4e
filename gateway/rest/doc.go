// Package rest reads one request of a caller and answers it in the published form: its body, the one call to a coordinator
// that it causes, the envelope of the answer, and the errors.
//
// Contract: a handler reads what the request says, makes one call with the context of Call, and answers once, or returns an
// error; Fail answers with that. An error of a coordinator becomes the published one, with the text that a caller may see.
//
// Guarantees: a write carries an idempotency key, made here if the caller gave none, and one with a condition that its handler
// does not heed is refused. Answers show secrets to callers with the permission for them alone. The text of internal errors never
// reaches a caller. A refusal is counted where it was made.
//
// Not guaranteed: that the caller may do what the request says. The server checks that before a handler sees it.
package rest
