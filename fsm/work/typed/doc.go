// Package typed counts GPUs by type: what tenants and queues hold of each type, and what they may hold.
//
// A job may leave the type of its GPUs open, so what it holds is known only from its leases. The counts follow from the
// leases and the nodes alone: when a node comes back with other GPUs, its leases are counted again.
package typed
