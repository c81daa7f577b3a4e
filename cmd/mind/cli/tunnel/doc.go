// Package tunnel is the client of tunnels into jobs: it carries bytes between this process and a process or a port of a task.
//
// Guarantees: a connection that breaks is made again, for a minute, and the bytes go on without gap or repeat. Memory is
// bounded. Not guaranteed: that the goroutine ends that reads the input; a read of a terminal cannot be interrupted.
package tunnel
