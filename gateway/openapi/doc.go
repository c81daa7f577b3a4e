// Package openapi writes the OpenAPI document of the gateway from the served operations and the descriptors of the messages
// that bodies are read into and answers are written from. So the document cannot differ from the code.
//
// Guarantees: every schema that the document refers to is in it, and two documents of the same operations are byte for byte
// equal.
//
// Not guaranteed: that an operation is served as it is described. The caller must use one table for both.
package openapi
