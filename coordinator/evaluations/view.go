package evaluations

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
)

// evaluationConfig returns what a job evaluates; nil: nothing, or its request can no longer be read.
func evaluationConfig(j *work.Job) *v1.EvaluationConfig {
	spec, err := jobspec.Decode(j)
	if err != nil {
		return nil
	}
	return spec.GetEvaluationConfig()
}

// evaluationView returns an evaluation as users see it.
func evaluationView(v *fsm.View, j *work.Job) *v1.Evaluation {
	config := evaluationConfig(j)
	out := &v1.Evaluation{
		EvaluationId: j.ID.EvaluationID(), Name: j.Name, TenantId: j.Tenant, UserId: j.User, Status: jobview.Status(v, j), State: j.State,
		WorkloadJobId: j.ID.String(), JobId: config.GetJobId(), ModelUri: config.GetModelUri(), CheckpointId: config.GetCheckpointId(),
		Benchmarks: config.GetBenchmarks(), ErrorType: j.ErrorType, ErrorMessage: words.Of(j.ErrorMessage), Reason: jobview.Reason(v, j), Labels: j.Labels,
		CreatedAt: call.Time(j.CreatedAt), StartedAt: call.Time(j.StartedAt), FinishedAt: call.Time(j.FinishedAt), Revision: j.Revision,
	}
	reported := map[string]bool{}
	for _, r := range v.EvaluationResults(j.ID) {
		reported[r.Benchmark] = true
		out.Results = append(out.Results, &v1.BenchmarkResult{
			Name: r.Benchmark, Metrics: jobview.Metrics(r.Metrics), NumSamples: int32(r.Samples), Error: words.Of(r.Error),
			Attempt: int32(r.Attempt), ReportedAt: call.Time(r.ReportedAt),
		})
	}
	if j.State != v1.JobState_SUCCEEDED {
		return out
	}
	var missing []string
	for _, b := range config.GetBenchmarks() {
		if !reported[b.GetName()] {
			missing = append(missing, b.GetName())
		}
	}
	if len(missing) > 0 {
		out.Reason = fmt.Sprintf("the workload succeeded without reporting a result of %s: its log says what it did", strings.Join(missing, ", "))
	}
	return out
}

// compared returns a row for each metric of each benchmark: benchmarks in the order of their first appearance, metrics
// by name.
func compared(evaluations []*v1.Evaluation) []*v1.ComparisonRow {
	type figure struct{ benchmark, metric string }
	var (
		order  []string
		rows   []*v1.ComparisonRow
		known  = map[figure]bool{}
		values = make([]map[figure]float64, len(evaluations))
	)
	for i, e := range evaluations {
		values[i] = map[figure]float64{}
		for _, r := range e.GetResults() {
			if !slices.Contains(order, r.GetName()) {
				order = append(order, r.GetName())
			}
			for metric, value := range r.GetMetrics().GetFields() {
				number, ok := value.GetKind().(*structpb.Value_NumberValue)
				if !ok {
					continue
				}
				f := figure{r.GetName(), metric}
				values[i][f] = number.NumberValue
				if !known[f] {
					known[f] = true
					rows = append(rows, &v1.ComparisonRow{Benchmark: f.benchmark, Metric: f.metric})
				}
			}
		}
	}
	slices.SortFunc(rows, func(a, b *v1.ComparisonRow) int {
		return cmp.Or(slices.Index(order, a.GetBenchmark())-slices.Index(order, b.GetBenchmark()), cmp.Compare(a.GetMetric(), b.GetMetric()))
	})
	errorOf := func(i int, row *v1.ComparisonRow) *float64 {
		if err, ok := values[i][figure{row.GetBenchmark(), row.GetMetric() + stderrSuffix}]; ok && err >= 0 {
			return &err
		}
		return nil
	}
	for _, row := range rows {
		var base, baseError *float64
		for i, e := range evaluations {
			value := &v1.ComparisonValue{EvaluationId: e.GetEvaluationId()}
			if number, ok := values[i][figure{row.GetBenchmark(), row.GetMetric()}]; ok {
				value.Value, value.StandardError = proto.Float64(number), errorOf(i, row)
				if base == nil {
					base, baseError = &number, value.StandardError
				} else {
					value.Delta = proto.Float64(number - *base)
					value.BeyondNoise = beyondNoise(*value.Delta, baseError, value.StandardError)
				}
			}
			row.Values = append(row.Values, value)
		}
	}
	return rows
}

const (
	// stderrSuffix is the suffix of the name of a metric's standard error, as in lm-eval.
	stderrSuffix = "_stderr"
	// noise is the number of standard errors that a difference exceeds by chance in one case of twenty, in either
	// direction.
	noise = 1.96
)

// beyondNoise reports whether a difference of two values is larger than chance explains; nil: their standard errors are
// not known. It treats the errors as independent. Over the same samples they often correlate, and then the result is a
// little too cautious.
func beyondNoise(delta float64, a, b *float64) *bool {
	if a == nil || b == nil {
		return nil
	}
	return proto.Bool(math.Abs(delta) > noise*math.Hypot(*a, *b))
}
