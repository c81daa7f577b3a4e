// Package tables keeps the rows of package work, with everything that is derived from them: who waits in which order, what
// each node's leases take, what each queue and tenant has, when time will strike.
//
// Guarantees. Whatever is put in is found by every index at once, and counted; Check computes all of it again and reports what
// differs, and the invariants that one state can show. A frozen view never changes and costs no lock to read.
//
// Not guaranteed here: that a change is legal. That is decided in package apply, which is the only one to change a [State].
package tables
