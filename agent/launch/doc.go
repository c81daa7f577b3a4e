// Package launch turns an order into what a shim runs: the command line of the job or of its launcher, its environment, and
// its directories.
//
// Contract: Launcher.Spec says how to run a task; Prepare writes what its program reads into the task's directory.
//
// Guarantees: a task gets no variable of the agent's environment but those listed here, and cannot change what the agent
// tells it. A task that this node cannot run (a missing script, program or Python module) gets a specification that says so in
// a sentence, and ends like any other. A task goes on from the newest registered checkpoint that is here and unchanged.
//
// Not guaranteed: that the command works; its shim tells how it ended.
package launch
