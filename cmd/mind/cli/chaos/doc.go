// Package chaos is `mind chaos`: attacks on a running development cluster, and what they found.
//
// What an attack does and checks is in package chaos/scenario; here are the flags, and which exit code a finding has.
package chaos
