// Package clitest runs the command line in tests, against a gateway whose answers the test sets.
package clitest
