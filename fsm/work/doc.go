// Package work has the rows of what is worked on and with (jobs, nodes, leases, queues, quotas), and the rules that can be told
// from a row alone.
//
// They are one aggregate: a placement touches a job, its leases, its nodes, a queue and a quota at once. So they are not
// parted by noun but by what code does. This package has no tables: what it says depends on its arguments alone, and the
// scheduler plans by the same rules by which the state is held to a plan. Package tables keeps the rows and all that is
// derived from them; the verbs decide what a command does.
//
// Guarantees. Every field of a row is in its hash. The table of transitions is all that a job's state ever does. Rows of an
// older version are read as they were meant: CBOR keys, command numbers and causes are only ever added.
package work
