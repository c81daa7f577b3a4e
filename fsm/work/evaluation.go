package work

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const (
	// MaxResultsPerJob bounds the benchmarks of which an evaluation has results; later ones are refused.
	MaxResultsPerJob = 256
	// MaxBenchmarkName and MaxResultMetrics bound the name of a benchmark and the figures of it, in bytes; maxResultError
	// what is said when there are none.
	MaxBenchmarkName = 128
	MaxResultMetrics = 16 << 10
	MaxResultError   = 1024

	// EvaluationLabel and EvaluationValue mark the jobs that are evaluations. Users cannot set them.
	EvaluationLabel = "type"
	EvaluationValue = "evaluation"
)

// EvaluationResult is what one benchmark came to, as a task of an evaluation reported it. There is one of each benchmark:
// the last that was reported under a lease that held.
type EvaluationResult struct {
	Job       ident.Job `cbor:"1,keyasint,omitempty"`
	Benchmark string    `cbor:"2,keyasint,omitempty"`
	Tenant    string    `cbor:"3,keyasint,omitempty"`
	Attempt   uint32    `cbor:"4,keyasint,omitempty"`
	Token     uint64    `cbor:"5,keyasint,omitempty"`
	Rank      uint16    `cbor:"6,keyasint,omitempty"`
	// Metrics is a JSON object of numbers, opaque here.
	Metrics string `cbor:"7,keyasint,omitempty"`
	Samples int64  `cbor:"8,keyasint,omitempty"`
	// Error says why there are no figures.
	Error      reason.Reason `cbor:"9,keyasint,omitempty"`
	ReportedAt int64         `cbor:"10,keyasint,omitempty"`
	// Place counts the results of the job in the order in which they were reported.
	Place uint64 `cbor:"11,keyasint,omitempty"`
}

// Evaluation says whether the job is one.
func (j *Job) Evaluation() bool { return j.Labels[EvaluationLabel] == EvaluationValue }
