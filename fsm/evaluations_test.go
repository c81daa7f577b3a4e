package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/results"
)

func anEvaluation() jobverbs.NewJob {
	n := oneGPU()
	n.Name, n.Labels = "evaluation of job_1", map[string]string{work.EvaluationLabel: work.EvaluationValue}
	return n
}

// scores reports a result of rank 0.
func (w *world) scores(id ident.Job, benchmark, metrics string, change ...func(*jobverbs.TaskReport)) jobverbs.ReportResult {
	return w.report(id, 0, jobverbs.ReportEvaluation, append([]func(*jobverbs.TaskReport){func(r *jobverbs.TaskReport) {
		r.Benchmark, r.Metrics, r.Samples = benchmark, metrics, 100
	}}, change...)...)
}

func (w *world) results(id ident.Job) []string {
	var out []string
	for _, r := range w.m.View().EvaluationResults(id) {
		out = append(out, fmt.Sprintf("%s %s %d %s@%d", r.Benchmark, r.Metrics, r.Samples, r.Error, r.Attempt))
	}
	return out
}

func TestEvaluation_resultsReplaceEachOther(t *testing.T) {
	w := cluster(t)
	id := w.submit(retried(anEvaluation(), 3))
	w.runOn(id, "n1")
	revision := w.job(id).Revision
	require.Equal(t, jobverbs.ReportResult{Applied: 1}, w.scores(id, "mmlu", `{"accuracy":0.5}`))
	require.Greater(t, w.job(id).Revision, revision, "who waits for a change must see it")
	require.Equal(t, jobverbs.ReportResult{Applied: 1}, w.scores(id, "arc", `{"accuracy":0.7}`))
	same := w.job(id)
	require.Equal(t, jobverbs.ReportResult{Duplicate: 1}, w.scores(id, "mmlu", `{"accuracy":0.5}`))
	require.Same(t, same, w.job(id))
	require.Equal(t, []string{`mmlu {"accuracy":0.5} 100 @1`, `arc {"accuracy":0.7} 100 @1`}, w.results(id))

	// The next attempt takes the place of what the one before it said.
	first := w.job(id)
	w.breaks(id)
	w.runOn(id, "n2")
	require.Len(t, w.results(id), 2, "what was reported stays until it is reported again")
	require.Equal(t, jobverbs.ReportResult{Applied: 1}, w.scores(id, "mmlu", `{"accuracy":0.5}`))
	w.scores(id, "humaneval", "", func(r *jobverbs.TaskReport) { r.Samples, r.ErrorMessage = 0, "no sandbox" })
	want := []string{`arc {"accuracy":0.7} 100 @1`, `mmlu {"accuracy":0.5} 100 @2`, `humaneval  0 no sandbox@2`}
	require.Equal(t, want, w.results(id))

	// An attempt that was replaced is not believed any more.
	fenced := w.m.View().Fenced()
	late := do[jobverbs.ReportResult](w, jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{
		{Job: id, Attempt: first.Attempt, Token: first.Token, Kind: jobverbs.ReportEvaluation, Benchmark: "mmlu", Metrics: `{"accuracy":1}`},
	}})
	require.Equal(t, jobverbs.ReportResult{Stale: 1}, late)
	require.Equal(t, fenced+1, w.m.View().Fenced())
	w.report(id, 0, jobverbs.ReportEnded, exit(0))
	require.Equal(t, jobverbs.ReportResult{Stale: 1}, do[jobverbs.ReportResult](w, jobverbs.ReportTasks{Node: "n2", Reports: []jobverbs.TaskReport{
		{Job: id, Attempt: 2, Token: w.job(id).Token, Kind: jobverbs.ReportEvaluation, Benchmark: "mmlu", Metrics: `{"accuracy":1}`},
	}}), "after its end")
	require.Equal(t, want, w.results(id))
}

func TestEvaluation_resultsAreBounded(t *testing.T) {
	w := cluster(t)
	plain := w.submit(oneGPU())
	w.runOn(plain, "n1")
	require.Equal(t, jobverbs.ReportResult{Refused: 1}, w.scores(plain, "mmlu", "{}"), "it is no evaluation")
	require.Empty(t, w.results(plain))
	id := w.submit(anEvaluation())
	w.runOn(id, "n2")
	for name, change := range map[string]func(*jobverbs.TaskReport){
		"no name":      func(r *jobverbs.TaskReport) { r.Benchmark = "" },
		"a long name":  func(r *jobverbs.TaskReport) { r.Benchmark = strings.Repeat("x", results.MaxBenchmarkName+1) },
		"many figures": func(r *jobverbs.TaskReport) { r.Metrics = strings.Repeat("x", results.MaxMetrics+1) },
		"a long error": func(r *jobverbs.TaskReport) { r.ErrorMessage = reason.Text(strings.Repeat("x", results.MaxError+1)) },
		"less than no": func(r *jobverbs.TaskReport) { r.Samples = -1 },
	} {
		require.Equal(t, jobverbs.ReportResult{Refused: 1}, w.scores(id, "mmlu", "{}", change), name)
	}
	for i := range results.MaxPerJob {
		require.Equal(t, 1, w.scores(id, fmt.Sprintf("b%d", i), "{}").Applied)
	}
	require.Equal(t, jobverbs.ReportResult{Refused: 1}, w.scores(id, "one more", "{}"))
	require.Equal(t, jobverbs.ReportResult{Applied: 1}, w.scores(id, "b0", `{"x":1}`), "that one is known")
	require.Len(t, w.results(id), results.MaxPerJob)
}

func TestEvaluation_resultsGoWithTheJob(t *testing.T) {
	w := cluster(t)
	w.do(clusterverbs.Configure{KeepFinished: 1})
	var ids []ident.Job
	for range 2 {
		id := w.submit(anEvaluation())
		w.runOn(id, "n1")
		w.scores(id, "mmlu", `{"accuracy":0.5}`)
		w.report(id, 0, jobverbs.ReportEnded, exit(0))
		ids = append(ids, id)
	}
	w.do(clusterverbs.Tick{})
	_, there := w.m.View().Job(ids[0])
	require.False(t, there)
	require.Empty(t, w.results(ids[0]))
	require.Len(t, w.results(ids[1]), 1)
}

func TestEvaluationID_isTheJobs(t *testing.T) {
	id := ident.Job(1 << 11)
	require.Equal(t, "eval_200", id.EvaluationID())
	back, ok := ident.ParseEvaluation("eval_200")
	require.True(t, ok)
	require.Equal(t, id, back)
	for _, other := range []string{"job_200", "eval_", "eval_0200", "eval_I", "200", ""} {
		_, ok := ident.ParseEvaluation(other)
		require.False(t, ok, other)
	}
}
