package apply

import (
	"github.com/mindcoordinator/mind/fsm/work"
)

// evaluated takes in the result of a benchmark that a live task reports; false: it says nothing new, or cannot be kept.
func (e *editor) evaluated(r *work.TaskReport, res *work.ReportResult) bool {
	tx, j := e.tx, e.job(r.Job)
	n, last := 0, uint64(0)
	for have := range tx.ResultsOf(j.ID) {
		n, last = n+1, max(last, have.Place)
	}
	old, known := tx.Result(j.ID, r.Benchmark)
	switch {
	case !j.Evaluation(), !known && n >= work.MaxResultsPerJob, r.Benchmark == "", len(r.Benchmark) > work.MaxBenchmarkName,
		len(r.Metrics) > work.MaxResultMetrics, len(r.ErrorMessage) > work.MaxResultError, r.Samples < 0:
		res.Refused++
		return false
	case known && old.Token == j.Token && old.Rank == r.Rank && old.Metrics == r.Metrics && old.Samples == r.Samples && old.Error == r.ErrorMessage:
		return false
	}
	tx.PutResult(&work.EvaluationResult{
		Job: j.ID, Benchmark: r.Benchmark, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token, Rank: r.Rank,
		Metrics: r.Metrics, Samples: r.Samples, Error: r.ErrorMessage, ReportedAt: tx.now, Place: last + 1,
	})
	j = e.edit()
	tx.emitJob(j, j.State)
	return true
}
