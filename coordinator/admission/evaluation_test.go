package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

func benchmarks(names ...string) []*v1.Benchmark {
	var out []*v1.Benchmark
	for _, name := range names {
		out = append(out, &v1.Benchmark{Name: name})
	}
	return out
}

func TestCheckEvaluation(t *testing.T) {
	base := func() *v1.EvaluationConfig {
		return &v1.EvaluationConfig{JobId: "job_1", Benchmarks: benchmarks("mmlu", "leaderboard|arc:challenge|25")}
	}
	require.NoError(t, CheckEvaluation(base()))
	for name, c := range map[string]struct {
		change func(*v1.EvaluationConfig)
		field  string
	}{
		"nothing to score":        {func(e *v1.EvaluationConfig) { e.JobId = "" }, "job_id"},
		"a checkpoint of no job":  {func(e *v1.EvaluationConfig) { e.JobId, e.ModelUri, e.CheckpointId = "", "hf://a/b", "ckpt_1" }, "checkpoint_id"},
		"two models":              {func(e *v1.EvaluationConfig) { e.ModelUri, e.CheckpointId = "hf://a/b", "ckpt_1" }, "checkpoint_id"},
		"no benchmarks":           {func(e *v1.EvaluationConfig) { e.Benchmarks = nil }, "benchmarks"},
		"too many":                {func(e *v1.EvaluationConfig) { e.Benchmarks = make([]*v1.Benchmark, 65) }, "benchmarks"},
		"a benchmark twice":       {func(e *v1.EvaluationConfig) { e.Benchmarks = benchmarks("a", "b", "a") }, "benchmarks[2].name"},
		"a nameless benchmark":    {func(e *v1.EvaluationConfig) { e.Benchmarks = benchmarks("") }, "benchmarks[0].name"},
		"a name with a space":     {func(e *v1.EvaluationConfig) { e.Benchmarks = benchmarks("a b") }, "benchmarks[0].name"},
		"a name that goes on":     {func(e *v1.EvaluationConfig) { e.Benchmarks = benchmarks(strings.Repeat("x", 129)) }, "benchmarks[0].name"},
		"less than no samples":    {func(e *v1.EvaluationConfig) { e.Benchmarks[1].NumSamples = -1 }, "benchmarks[1].num_samples"},
		"a nameless parameter":    {func(e *v1.EvaluationConfig) { e.Benchmarks[0].Parameters = map[string]string{"": "x"} }, "benchmarks[0].parameters"},
		"a dataset somewhere":     {func(e *v1.EvaluationConfig) { e.Benchmarks[0].Dataset = "somewhere" }, "benchmarks[0].dataset"},
		"a relative model":        {func(e *v1.EvaluationConfig) { e.ModelUri = "models/a" }, "model_uri"},
		"an unknown scheme":       {func(e *v1.EvaluationConfig) { e.ModelUri = "gopher://a" }, "model_uri"},
		"a file that is relative": {func(e *v1.EvaluationConfig) { e.ModelUri = "file://a" }, "model_uri"},
		"a scheme alone":          {func(e *v1.EvaluationConfig) { e.ModelUri = "hf://" }, "model_uri"},
	} {
		t.Run(name, func(t *testing.T) {
			e := base()
			c.change(e)
			err := CheckEvaluation(e)
			require.Error(t, err)
			require.Equal(t, c.field, err.(*call.Invalid).Field, err)
		})
	}
	spec := &v1.SubmitJobRequest{Name: "x", EvaluationConfig: base(), CommandConfig: &v1.CommandConfig{}}
	_, err := Parse(spec, largest(1))
	require.ErrorContains(t, err, "cannot be combined with")
}
