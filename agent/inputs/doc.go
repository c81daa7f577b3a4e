// Package inputs brings what a job reads to its node, and lays it out in the task's directory: data sources and models.
//
// Contract: Fetch brings them, through the node's data cache (package datacache), which Open opens; Data.Write lays them out
// before the command is started; ModelPath is what the process is told of its model.
//
// Guarantees: what a task uses is held in the cache until Release, also across a restart of the agent (Hold). What cannot be
// had is told in a sentence for whoever submitted the job, and Failure says by which kind of error.
//
// Not guaranteed: that a local source or a model stays what it was; it is used where it is.
package inputs
