// Package tunnels keeps the tunnels into the tasks of a node: bytes between a user and a process beside a task (a shell), or
// a port on which the task listens.
//
// Guarantees. Each byte has an offset in its channel: a client whose connection broke goes on with the tunnel without gap or
// repeat, through any coordinator. Memory is bounded: a client that does not read stops the process, and one that sends
// more than it may is refused. A tunnel without a client ends after a minute, and all end with their task and with the
// agent.
//
// Not guaranteed: that a process ends which has left the session of its shell (setsid). It ends with its task.
package tunnels
