package tables

import (
	"iter"
	"slices"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work"
)

type resultKey struct {
	job       ident.Job
	benchmark string
}

type evaluationTables struct {
	results kernel.Table[resultKey, *work.EvaluationResult]
}

func newEvaluationTables() (t evaluationTables) {
	t.results = kernel.NewTable[resultKey, *work.EvaluationResult](recordEvaluationResult, func(a, b resultKey) bool {
		return a.job < b.job || a.job == b.job && a.benchmark < b.benchmark
	})
	return t
}

func (t *evaluationTables) freeze() evaluationTables {
	return evaluationTables{results: t.results.Freeze()}
}

func (s *State) PutResult(r *work.EvaluationResult) {
	s.evaluations.results.Put(resultKey{r.Job, r.Benchmark}, r)
}

// EvaluationResults are the results of a job, in the order in which they were reported.
func (s *rows) EvaluationResults(job ident.Job) []*work.EvaluationResult {
	out := slices.Collect(s.ResultsOf(job))
	slices.SortFunc(out, func(a, b *work.EvaluationResult) int { return int(int64(a.Place) - int64(b.Place)) })
	return out
}

// Result returns the result of one benchmark of a job.
func (s *rows) Result(job ident.Job, benchmark string) (*work.EvaluationResult, bool) {
	return s.evaluations.results.Get(resultKey{job, benchmark})
}

// ResultsOf iterates the results of a job by benchmark.
func (s *rows) ResultsOf(job ident.Job) iter.Seq[*work.EvaluationResult] {
	return func(yield func(*work.EvaluationResult) bool) {
		for r := range s.evaluations.results.RowsFrom(resultKey{job: job}) {
			if r.Job != job || !yield(r) {
				return
			}
		}
	}
}

// DropResults forgets the results of a job that is dropped.
func (s *State) DropResults(job ident.Job) {
	for _, r := range slices.Collect(s.ResultsOf(job)) {
		s.evaluations.results.Delete(resultKey{job, r.Benchmark})
	}
}
