// Package results has what the benchmarks of evaluations came to, as their tasks reported it.
//
// Guarantees. There is one result of a benchmark of a job. It was reported under a token that the job has had, and it goes with
// the job.
package results
