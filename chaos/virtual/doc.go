// Package virtual runs a whole cluster in one process and in virtual time: real coordinators (raft, state machine,
// scheduler, gRPC) and real agents, on a simulated network, disks and processes, inside one testing/synctest bubble.
// Hours of virtual time take seconds.
//
// Contract: a Cluster is made inside a bubble. Every component runs on its own host (package network), and its messages
// to other components pass links that can be cut one way, delay, lose, stall or double them. A component can crash (its
// links break and its disk stops at that moment, whatever its goroutines still do), be stopped (it has no effects until
// it is continued) and be started again with the contents of its disk (package disk). The processes of tasks are
// simulated (package machine): each has a given running time and end, obeys the deadlines of a shim, outlives its
// agent, and reports its actions to package check. This package simulates users and faults, and checks the results.
//
// Guarantees: the faults of a run are drawn from a seed, and the same seed draws the same faults at the same times.
//
// Not guaranteed: the same run. The order of goroutines is up to the Go runtime, so a seed repeats the faults but not
// how the cluster reacts. Not modelled: bandwidth, CPU time (all work takes no time), torn writes inside one record,
// drift of agents' clocks (the clocks of their tasks' deadlines do drift), lost files of an agent.
package virtual
