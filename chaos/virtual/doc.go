// Package virtual is a whole cluster in one process and in virtual time: real coordinators (raft, state machine,
// scheduler, gRPC) and real agents, on a network, disks and processes in memory, inside one testing/synctest bubble. Hours
// of its life take seconds.
//
// Contract: a Cluster is made inside a bubble. Every component lives on a host of its own (package network), and everything
// that it says to another passes a link that can be cut one way, delayed, lossy, stalled or doubling. A component can crash
// (its links break and its disk stops at that moment, whatever its goroutines still do), be stopped (it has no effects until
// it is continued) and be started again with what its disk holds (package disk). The processes of tasks are simulated
// (package machine): they know how long they want to run and how they end, obey the deadlines of a shim, outlive their agent,
// and tell package check what they do. Here is what is done with all this: users at work, faults, and the result.
//
// Guarantees: the faults of a run are drawn from a seed, and the same seed draws the same faults at the same times.
//
// Not guaranteed: the same run. Goroutines are scheduled as Go likes it, so a seed repeats the attack and not the course
// of the defence. Not modelled: bandwidth, CPU time (all work takes no time), torn writes inside one record, agents'
// clocks that drift (those of their tasks' deadlines do), files of an agent that are lost.
package virtual
