// Package scaimindv1 is the contract of Mind: the messages and services of the protos beside it, generated. Nothing in it
// is written by hand; `make generate` makes it again.
package scaimindv1
