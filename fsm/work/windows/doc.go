// Package windows keeps what is arranged for nodes at a time: maintenance, and nodes that are reserved for a tenant.
//
// A window has its nodes from the moment it is made. Until it begins, a job is placed on them only if its time limit ends
// before, or if it may be preempted; while it lasts, only the tenant of a reservation is. Ticks begin and end windows, by the
// clock of the log.
//
// Guarantees. A node is in one window at a time. Nothing is granted on a node that a window keeps from the job.
package windows
