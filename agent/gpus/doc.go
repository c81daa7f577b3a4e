// Package gpus knows the GPUs of a node: which there are, which of them are fit for work, and who is on them.
//
// It owns the record of the GPUs in the agent's data directory, and the inventory (package device) that it is given.
//
// Contract: Run looks at the GPUs through the driver; Current tells them with their health, Fault why one failed. Occupants
// says whether a GPU is empty before a task gets it, and kills what earlier tasks left on it.
//
// Guarantees: a GPU keeps the index that leases know it by, whatever the driver does to its numbers. A GPU that failed is set
// aside until an operator enables the node and it was verified, also across restarts and power cuts: that it is set aside is
// on disk before anybody is told. A driver that does not answer sets all GPUs aside and ends nothing. Nobody who only asks,
// or who says what the orders say, waits for the driver or for the disk.
//
// Not guaranteed: that a process outside of the tasks keeps off a GPU between two looks.
package gpus
