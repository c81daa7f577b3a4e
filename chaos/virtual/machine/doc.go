// Package machine is a node without its agent, in memory: its clock, its GPUs, and the processes of tasks, each with its shim
// in one.
//
// Processes go on when the agent crashes, and die with the machine. They leave the files that a shim leaves, and tell package
// check what they do. A crashed agent changes nothing any more, however long its goroutines take to end. Paths differ from one
// life of an agent to the next; TruePath makes them comparable.
package machine
