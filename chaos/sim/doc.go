// Package sim simulates a cluster on one goroutine, from a seed: the same seed is the same run, event by event, and its
// trace has the same hash. It searches for histories that break the argument of docs/operate/failure-model.md.
//
// It finds faults that need a rare order of messages, elections and clocks: two attempts alive at once, a node that is
// declared lost too early, a replica that differs. It simulates hours of such histories in seconds, and repeats each
// one exactly; package virtual cannot repeat the schedule of goroutines, and runs of real processes cannot be repeated
// at all. It can also leave out a rule of the failure model, to show that the rule is needed (Rule).
//
// The deciding code of the product is run, not modelled:
//   - coordinators: the state machine (fsm) on packed and encoded entries, scheduler, coordinator/liveness, and the
//     messages of coordinator/session (Sender, OrderBook, Registration, Reports);
//   - agents: agent/lease, agent/session, agent/outbox and agent/tasks/table;
//   - shims: shim.Hold and shim.StopPlan.
//
// They exchange the messages of the product. Parts that need goroutines, sockets or files are modelled:
//   - raft (package raft), since hashicorp/raft cannot be run on one goroutine;
//   - gossip, as the state of each agent that each coordinator last heard of, late, and sometimes wrong;
//   - when a leader checks its nodes, asks for votes and proposes (coordinator/term), and the calls between agents
//     (agent/leader);
//   - machines, disks and programs (package machine), the network and time (package engine);
//   - users.
//
// Guarantees: a run ends with nil or with the first finding; a finding names its seed. Not guaranteed: that a rule is
// not needed if leaving it out has no finding (see rules_test.go), and anything about the modelled code: packages
// virtual and scenario test that.
package sim
