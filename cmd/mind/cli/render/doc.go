// Package render writes answers to people as tables, and to programs as JSON or YAML.
//
// What others wrote (names, reasons, messages) reaches a terminal on one line and without control characters; programs get it
// as it was written.
package render
