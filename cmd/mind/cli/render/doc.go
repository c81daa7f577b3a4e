// Package render writes results as tables for people, and as JSON or YAML for programs.
//
// Text from other users and programs (names, reasons, messages) is printed to a terminal on one line and without
// control characters; programs get it unchanged.
package render
