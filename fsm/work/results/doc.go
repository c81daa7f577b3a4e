// Package results has the results of the benchmarks of evaluations, as their tasks reported them.
//
// Guarantees. There is one result of a benchmark of a job. It was reported under a token that the job has had, and it goes with
// the job.
package results
