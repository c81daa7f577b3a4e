// Package clitest runs the command line in tests, against a gateway that answers what the test tells it to.
package clitest
