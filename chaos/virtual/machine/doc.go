// Package machine simulates a node without its agent: its clock, its GPUs, and the processes of tasks, each together
// with its shim.
//
// Processes keep running when the agent crashes, and die with the machine. They write the same files as a shim, and
// report their actions to package check. A crashed agent has no effects any more, however long its goroutines take to
// end. Paths differ from one life of an agent to the next; TruePath makes them comparable.
package machine
