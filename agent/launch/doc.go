// Package launch turns an order into the specification for a shim: the command line of the job or of its launcher, its
// environment, and its directories.
//
// Contract: Launcher.Spec returns the specification of a task; Prepare writes the files that its program reads into the
// task's directory.
//
// Guarantees: a task gets no variable of the agent's environment except those listed here, and cannot change the variables
// that the agent sets. The Python environment that a job names comes first in its PATH. If this node cannot run a task (a
// missing script, program, Python environment or module), the specification explains it in a sentence, and the task ends
// like any other. A task resumes from the newest registered checkpoint that
// this node has unchanged.
//
// Not guaranteed: that the command works; its shim reports how it ended.
package launch
