// Package gpus keeps track of the GPUs of a node: their health, and the processes that use them.
//
// It owns the record of the GPUs in the agent's data directory, and the inventory (package device) that it is given.
//
// Contract: Run checks the GPUs through the driver; Current returns them with their health, and Fault why one failed.
// Occupants checks that a GPU is empty before a task gets it, and kills what earlier tasks left on it.
//
// Guarantees: a GPU keeps its index for leases, even if the driver renumbers the GPUs. A GPU that failed is quarantined
// until an operator enables the node and the GPU was verified, also across restarts and power cuts: the quarantine is on
// disk before it is reported. A driver that does not answer quarantines all GPUs and ends no task. Current, Fault and
// Enabled wait neither for the driver nor for the disk.
//
// Not guaranteed: that a foreign process does not use a GPU between two checks.
package gpus
