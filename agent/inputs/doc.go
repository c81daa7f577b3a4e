// Package inputs brings the data sources and the model of a job to its node, and lays them out in the task's directory.
//
// Contract: Fetch brings them through the node's data cache (package datacache), which Open opens. Data.Write lays them out
// before the command starts. ModelPath is the model path given to the process.
//
// Guarantees: data that a task uses is held in the cache until Release, also across a restart of the agent (Hold). An
// error of Fetch is a sentence for the job's user, and Failure returns its type.
//
// Not guaranteed: that a local source or model does not change; it is used in place.
package inputs
