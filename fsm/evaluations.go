package fsm

import (
	"iter"
	"slices"
)

const (
	recordEvaluationResult = 80

	// MaxResultsPerJob bounds the benchmarks of which an evaluation has results; later ones are refused.
	MaxResultsPerJob = 256
	// MaxBenchmarkName and MaxResultMetrics bound the name of a benchmark and the figures of it, in bytes; maxResultError
	// what is said when there are none.
	MaxBenchmarkName = 128
	MaxResultMetrics = 16 << 10
	maxResultError   = 1024

	// EvaluationLabel and EvaluationValue mark the jobs that are evaluations. Users cannot set them.
	EvaluationLabel = "type"
	EvaluationValue = "evaluation"
)

// EvaluationResult is what one benchmark came to, as a task of an evaluation reported it. There is one of each benchmark:
// the last that was reported under a lease that held.
type EvaluationResult struct {
	Job       JobID  `cbor:"1,keyasint,omitempty"`
	Benchmark string `cbor:"2,keyasint,omitempty"`
	Tenant    string `cbor:"3,keyasint,omitempty"`
	Attempt   uint32 `cbor:"4,keyasint,omitempty"`
	Token     uint64 `cbor:"5,keyasint,omitempty"`
	Rank      uint16 `cbor:"6,keyasint,omitempty"`
	// Metrics is a JSON object of numbers, opaque here.
	Metrics string `cbor:"7,keyasint,omitempty"`
	Samples int64  `cbor:"8,keyasint,omitempty"`
	// Error says why there are no figures.
	Error      string `cbor:"9,keyasint,omitempty"`
	ReportedAt int64  `cbor:"10,keyasint,omitempty"`
	// Place counts the results of the job in the order in which they were reported.
	Place uint64 `cbor:"11,keyasint,omitempty"`
}

type resultKey struct {
	job       JobID
	benchmark string
}

type evaluationTables struct {
	results table[resultKey, *EvaluationResult]
}

var evaluationDomain = domain{
	name: "evaluations",
	records: []recordDef{
		defineRecords(recordEvaluationResult, "evaluation result",
			func(s *state) *table[resultKey, *EvaluationResult] { return &s.evaluations.results },
			func(s *state, r *EvaluationResult) error { s.putResult(r); return nil }),
	},
	open: func(s *state) {
		s.evaluations.results = newTable[resultKey, *EvaluationResult](recordEvaluationResult, func(a, b resultKey) bool {
			return a.job < b.job || a.job == b.job && a.benchmark < b.benchmark
		})
	},
	freeze: func(s, from *state) { s.evaluations = evaluationTables{results: from.evaluations.results.freeze()} },
	check:  checkEvaluations,
}

func (s *state) putResult(r *EvaluationResult) {
	s.evaluations.results.put(resultKey{r.Job, r.Benchmark}, r)
}

func (r *EvaluationResult) appendFields(f fields) fields {
	f = f.num(uint64(r.Job)).text(r.Benchmark).text(r.Tenant).num(uint64(r.Attempt)).num(r.Token).num(uint64(r.Rank))
	return f.text(r.Metrics).int(r.Samples).text(r.Error).int(r.ReportedAt).num(r.Place)
}

// Evaluation says whether the job is one.
func (j *Job) Evaluation() bool { return j.Labels[EvaluationLabel] == EvaluationValue }

// EvaluationResults are the results of a job, in the order in which they were reported.
func (s *state) EvaluationResults(job JobID) []*EvaluationResult {
	out := slices.Collect(s.resultsOf(job))
	slices.SortFunc(out, func(a, b *EvaluationResult) int { return int(int64(a.Place) - int64(b.Place)) })
	return out
}

// resultsOf iterates the results of a job by benchmark.
func (s *state) resultsOf(job JobID) iter.Seq[*EvaluationResult] {
	return func(yield func(*EvaluationResult) bool) {
		from := record[resultKey, *EvaluationResult]{key: resultKey{job: job}}
		s.evaluations.results.tree.AscendGreaterOrEqual(from, func(r record[resultKey, *EvaluationResult]) bool {
			return r.key.job == job && yield(r.row)
		})
	}
}

// evaluated takes in the result of a benchmark that a live task reports; false: it says nothing new, or cannot be kept.
func (e *editor) evaluated(r *TaskReport, res *ReportResult) bool {
	tx, j := e.tx, e.job(r.Job)
	n, last := 0, uint64(0)
	for have := range tx.resultsOf(j.ID) {
		n, last = n+1, max(last, have.Place)
	}
	old, known := tx.evaluations.results.get(resultKey{j.ID, r.Benchmark})
	switch {
	case !j.Evaluation(), !known && n >= MaxResultsPerJob, r.Benchmark == "", len(r.Benchmark) > MaxBenchmarkName,
		len(r.Metrics) > MaxResultMetrics, len(r.ErrorMessage) > maxResultError, r.Samples < 0:
		res.Refused++
		return false
	case known && old.Token == j.Token && old.Rank == r.Rank && old.Metrics == r.Metrics && old.Samples == r.Samples && old.Error == r.ErrorMessage:
		return false
	}
	tx.putResult(&EvaluationResult{
		Job: j.ID, Benchmark: r.Benchmark, Tenant: j.Tenant, Attempt: j.Attempt, Token: j.Token, Rank: r.Rank,
		Metrics: r.Metrics, Samples: r.Samples, Error: r.ErrorMessage, ReportedAt: tx.now, Place: last + 1,
	})
	j = e.edit()
	tx.emitJob(j, j.State)
	return true
}

// dropResults forgets the results of a job that is dropped.
func (tx *tx) dropResults(job JobID) {
	for _, r := range slices.Collect(tx.resultsOf(job)) {
		tx.evaluations.results.delete(resultKey{job, r.Benchmark})
	}
}

func checkEvaluations(s *state, report func(string, ...any)) {
	places := map[JobID]map[uint64]bool{}
	for r := range s.evaluations.results.rows() {
		j, ok := s.Job(r.Job)
		if !ok || j.Tenant != r.Tenant || !j.Evaluation() {
			report("I11: a result of %q belongs to %s, which is no evaluation of tenant %q", r.Benchmark, r.Job, r.Tenant)
			continue
		}
		known := r.Attempt == j.Attempt && r.Token == j.Token ||
			slices.ContainsFunc(j.Past, func(p PastAttempt) bool { return p.Attempt == r.Attempt && p.Token == r.Token })
		if r.Token > j.Token || !known && len(j.Past) < MaxPastAttempts {
			report("I11: the result of %q is of attempt %d, token %d, which %s never had", r.Benchmark, r.Attempt, r.Token, j.ID)
		}
		if len(r.Benchmark) == 0 || len(r.Benchmark) > MaxBenchmarkName || len(r.Metrics) > MaxResultMetrics || len(r.Error) > maxResultError {
			report("the result of %q of %s is out of bounds", r.Benchmark, j.ID)
		}
		if places[r.Job] == nil {
			places[r.Job] = map[uint64]bool{}
		}
		if places[r.Job][r.Place] {
			report("two results of %s have the place %d", j.ID, r.Place)
		}
		if places[r.Job][r.Place] = true; len(places[r.Job]) > MaxResultsPerJob {
			report("%s has results of more than %d benchmarks", j.ID, MaxResultsPerJob)
		}
	}
}
