package results

import (
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const (
	// MaxPerJob bounds the benchmarks of which an evaluation has results; later ones are refused.
	MaxPerJob = 256
	// MaxBenchmarkName and MaxMetrics bound the name of a benchmark and the figures of it, in bytes; MaxError
	// what is said when there are none.
	MaxBenchmarkName = 128
	MaxMetrics       = 16 << 10
	MaxError         = 1024
)

// EvaluationResult is the result of one benchmark, as a task of an evaluation reported it. There is one of each benchmark:
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

// AppendFields implements kernel.Row.
func (r *EvaluationResult) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(uint64(r.Job)).Text(r.Benchmark).Text(r.Tenant).Num(uint64(r.Attempt)).Num(r.Token).Num(uint64(r.Rank))
	return f.Text(r.Metrics).Int(r.Samples).Text(string(r.Error)).Int(r.ReportedAt).Num(r.Place)
}
