// Package confine keeps the processes of a task apart from the rest of the machine: in a control group, behind walls that the
// kernel holds, and as a user of its own.
//
// Contract: the shim makes the parts when a task starts: a Group, a Thread behind Walls on which all processes of the task are
// started, and a User that they get. The package decides nothing: package isolation of the agent does.
//
// Guarantees: what is asked for holds for all processes of the task, or there is an error, and the task must not be started. Walls
// hold as far as the kernel has them.
//
// It is part of the shim, and imports as little: see the comment of package shim.
package confine
