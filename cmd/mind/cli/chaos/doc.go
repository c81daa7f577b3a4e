// Package chaos implements `mind chaos`: attacks on a running development cluster, and their results.
//
// Package chaos/scenario defines what an attack does and checks. This package has the flags and the exit codes.
package chaos
