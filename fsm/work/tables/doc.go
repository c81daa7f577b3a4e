// Package tables keeps the rows of package work, with everything that is derived from them: the order of the waiting jobs, what
// each node's leases take, what each queue and tenant has, when time will strike.
//
// It has the tables of jobs, leases, nodes, queues and quotas. A table or an index of its own is in a package beside the
// others (claims, keys, waiting, figures and more), which can be understood without them; package tables keeps them in
// step. Such a package reads by methods, which a [View] offers as its own, and changes by functions.
//
// Guarantees. A row that is put in is found by every index at once, and counted; Check computes all of it again and reports what
// differs, and the invariants that one state can show. A frozen view never changes and costs no lock to read.
//
// Not guaranteed here: that a change is legal. The verbs decide that, within a transaction of package lifecycle.
package tables
