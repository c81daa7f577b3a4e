// Package wire turns JSON bodies and query parameters into messages, and messages into JSON answers, with secrets hidden
// where needed.
//
// Guarantees: a body becomes a message, or a list of faults that gives the path of each wrong field. Every field of an
// answer is always present, under its name in the protos; 64-bit integers are numbers, enums are words, times are RFC 3339.
// With hide, Append writes no value of an environment and no credential in a URL.
//
// Not guaranteed: that a request makes sense. It matches the schema; the coordinators check the rest.
package wire
