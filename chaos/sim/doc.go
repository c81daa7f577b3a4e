// Package sim plays the life of a cluster on one goroutine, from a seed: the same seed is the same run, event by event, and
// its trace has the same hash. It looks for histories that break the argument of docs/operate/failure-model.md.
//
// It finds what takes a rare order of messages, elections and clocks: two attempts alive at once, a node that is lost too
// early, a replica that differs. It plays hours of such histories in seconds, and repeats each to the last event; package
// virtual cannot repeat the schedule of goroutines, and real processes repeat nothing. It can also do without a rule of the
// failure model, and shows that the rule was needed (Rule).
//
// The code of the product that decides is run, not modelled:
//   - coordinators: the state machine (fsm) on packed and encoded entries, scheduler, coordinator/liveness, and what
//     coordinator/session says in which order (Sender, OrderBook, Registration, Reports);
//   - agents: agent/lease, agent/session, agent/outbox and agent/tasks/table;
//   - shims: shim.Hold and shim.StopPlan.
//
// They speak in the messages of the product. Modelled is what needs goroutines, sockets or files:
//   - raft (package raft), since hashicorp/raft cannot be run on one goroutine;
//   - gossip, as what each coordinator last heard of each agent, late, and sometimes wrong;
//   - when a leader looks, asks for votes and proposes (coordinator/term), and how calls between agents travel (agent/leader);
//   - machines, disks and programs (package machine), the network and time (package engine);
//   - users.
//
// Guarantees: a run ends with nil or with the first finding; a finding names its seed. Not guaranteed: that a rule which
// can be switched off without a finding is not needed (see rules_test.go), and anything about code that is modelled: that
// is for packages virtual and scenario.
package sim
