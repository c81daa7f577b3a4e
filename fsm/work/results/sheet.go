package results

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

const record = 80

// key names a result.
type key struct {
	job       ident.Job
	benchmark string
}

// Sheet has the results. Its methods read; what changes it is functions, so that a frozen copy that is embedded in a view
// offers none of it.
type Sheet struct {
	rows kernel.Table[key, *EvaluationResult]
}

// NewSheet returns an empty one.
func NewSheet() Sheet {
	return Sheet{rows: kernel.NewTable[key, *EvaluationResult](record, func(a, b key) bool {
		return a.job < b.job || a.job == b.job && a.benchmark < b.benchmark
	})}
}

// Record is the kind of row; at finds the results of a state.
func Record(at func(*kernel.State) *Sheet) kernel.RecordDef {
	return kernel.Rows(record, "evaluation result", func(s *kernel.State) *kernel.Table[key, *EvaluationResult] { return &at(s).rows },
		func(s *kernel.State, r *EvaluationResult) error { Put(at(s), r); return nil })
}

// Freeze returns a copy for a view.
func Freeze(t *Sheet) Sheet { return Sheet{rows: t.rows.Freeze()} }

// Put puts a result in, in the place of the one of its benchmark.
func Put(t *Sheet, r *EvaluationResult) { t.rows.Put(key{r.Job, r.Benchmark}, r) }

// DropOf takes out the results of a job that is dropped.
func DropOf(t *Sheet, job ident.Job) {
	for _, r := range slices.Collect(t.ResultsOf(job)) {
		t.rows.Delete(key{job, r.Benchmark})
	}
}

// EvaluationResults are the results of a job, in the order in which they were reported.
func (t *Sheet) EvaluationResults(job ident.Job) []*EvaluationResult {
	out := slices.Collect(t.ResultsOf(job))
	slices.SortFunc(out, func(a, b *EvaluationResult) int { return int(int64(a.Place) - int64(b.Place)) })
	return out
}

// Result returns the result of one benchmark of a job.
func (t *Sheet) Result(job ident.Job, benchmark string) (*EvaluationResult, bool) {
	return t.rows.Get(key{job, benchmark})
}

// ResultsOf iterates the results of a job by benchmark.
func (t *Sheet) ResultsOf(job ident.Job) iter.Seq[*EvaluationResult] {
	return func(yield func(*EvaluationResult) bool) {
		for r := range t.rows.RowsFrom(key{job: job}) {
			if r.Job != job || !yield(r) {
				return
			}
		}
	}
}

// Results iterates all results by job and benchmark.
func (t *Sheet) Results() iter.Seq[*EvaluationResult] { return t.rows.Rows() }

// CheckResults reports what does not hold of the results; job finds a job.
func (t *Sheet) CheckResults(job func(ident.Job) (*work.Job, bool), report kernel.Report) {
	places := map[ident.Job]map[uint64]bool{}
	for r := range t.Results() {
		j, ok := job(r.Job)
		if !ok || j.Tenant != r.Tenant || !j.Evaluation() {
			report("I11: a result of %q belongs to %s, which is no evaluation of tenant %q", r.Benchmark, r.Job, r.Tenant)
			continue
		}
		known := r.Attempt == j.Attempt && r.Token == j.Token ||
			slices.ContainsFunc(j.Past, func(p work.PastAttempt) bool { return p.Attempt == r.Attempt && p.Token == r.Token })
		if r.Token > j.Token || !known && len(j.Past) < work.MaxPastAttempts {
			report("I11: the result of %q is of attempt %d, token %d, which %s never had", r.Benchmark, r.Attempt, r.Token, j.ID)
		}
		if len(r.Benchmark) == 0 || len(r.Benchmark) > MaxBenchmarkName || len(r.Metrics) > MaxMetrics || len(r.Error) > MaxError {
			report("the result of %q of %s is out of bounds", r.Benchmark, j.ID)
		}
		if places[r.Job] == nil {
			places[r.Job] = map[uint64]bool{}
		}
		if places[r.Job][r.Place] {
			report("two results of %s have the place %d", j.ID, r.Place)
		}
		if places[r.Job][r.Place] = true; len(places[r.Job]) > MaxPerJob {
			report("%s has results of more than %d benchmarks", j.ID, MaxPerJob)
		}
	}
}
