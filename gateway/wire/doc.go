// Package wire turns what callers write into messages, and messages into what callers read: JSON bodies, query parameters, and
// what of an answer is secret.
//
// Guarantees: a body becomes the message that its fields say, or a list of faults that names each wrong field by its path. Every
// field of an answer is always there, under its name in the protos; 64-bit integers are numbers, enums are words, times are
// RFC 3339. With hide, no value of an environment and no credential in a URL is in what Append writes.
//
// Not guaranteed: that a request makes sense. It is of the schema; the coordinators check the rest.
package wire
