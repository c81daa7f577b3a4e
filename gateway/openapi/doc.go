// Package openapi writes the OpenAPI document of the gateway from what serves: its operations, and the descriptors of the messages
// that bodies are read into and answers are written from. So it cannot say anything else than the code does.
//
// Guarantees: every schema that the document refers to is in it, and two documents of the same operations are byte for byte equal.
//
// Not guaranteed: that an operation is served as it is described. It is the caller's table that does both.
package openapi
