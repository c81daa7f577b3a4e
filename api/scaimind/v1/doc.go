// Package scaimindv1 is the API of Mind: the messages and services generated from the protos in this directory. Nothing in
// it is written by hand; `make generate` generates it again.
package scaimindv1
