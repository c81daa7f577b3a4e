// Package sim plays the life of a cluster on one goroutine, from a seed: the same seed is the same run, event by event,
// and its trace has the same hash. It looks for histories that break the argument of docs/operate/failure-model.md.
//
// Real are the parts that decide and do no I/O: a fsm.Machine for each coordinator, fed with entries as they are packed
// and encoded in the log; scheduler.Plan; and a lease.Keeper for each agent.
//
// Modelled, in a few lines each and by the rules that the real rooms follow:
//   - raft: terms, elections, replication by whole logs, proofs of leadership; logs, terms and votes survive a crash, a
//     coordinator comes back from a snapshot and the log after it;
//   - what a leader does: sessions, silence and the fresh period, attention, renewals after a proof, relayed ones, votes,
//     verdicts, the roster and its acknowledgements, plans, orders, reports, ticks;
//   - gossip: each coordinator has a view of its own of each agent, late, and sometimes wrong;
//   - agents: sessions, orders, launches, pings, relays, restarts, the roster on disk;
//   - shims and processes: deadlines on the clock of their machine, whose rate is wrong by up to 0.5 %;
//   - the network: links that are cut one way, streams that stall and go on, messages that are lost, late, and doubled.
//
// Time is a number, events are in a heap by time and number, randomness comes from one PCG, and nothing depends on the
// order of a map.
//
// Guarantees: a run ends with nil or with the first finding; a finding names its seed. Not guaranteed: that a rule which
// can be switched off without a finding is not needed (see rules_test.go), and anything about code that is modelled and
// not run: that is for packages virtual and scenario.
package sim
