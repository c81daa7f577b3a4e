package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func evaluationOrder(model, script string) *v1.TaskOrder {
	o := order()
	o.Spec.Job = &v1.SubmitJobRequest{
		Name: "e", EvaluationConfig: &v1.EvaluationConfig{CheckpointId: "ckpt_1", Benchmarks: []*v1.Benchmark{{Name: "mmlu", NumSamples: 100}}},
	}
	o.Spec.ModelPath = model
	o.Spec.Launcher = &v1.Launcher{Framework: "EVALUATION", Argv: []string{"/bin/sh", script, "{model}"}}
	return o
}

// An evaluation from its launcher to its result, with a shell script as the program.
func TestAnEvaluationByAScript(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	require.NoError(t, os.Mkdir(model, 0o755))
	write(t, filepath.Join(model, "weights"), "x", 0o600)
	script := write(t, filepath.Join(dir, "score.sh"), `set -e
		[ "$1" = "$MIND_MODEL_PATH" ]
		grep -q '"evaluation_config"' "$MIND_CONFIG"; grep -q '"num_samples":100' "$MIND_CONFIG"
		echo '{"event":"evaluation_result","benchmark":"mmlu","metrics":{"files":'$(ls "$MIND_MODEL_PATH" | wc -l)'},"num_samples":100}' >> "$MIND_EVENTS_FILE"`, 0o600)
	o := evaluationOrder(model, script)
	l.want(o)
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
	got := l.reported(o.GetTask(), "a result", func(r *v1.Report) bool { return r.GetEvaluation() != nil }).GetEvaluation()
	require.Equal(t, "mmlu", got.GetBenchmark())
	require.JSONEq(t, `{"files":1}`, got.GetMetricsJson())
	require.EqualValues(t, 100, got.GetNumSamples())
	kinds := l.kinds(o.GetTask())
	require.Equal(t, "Ended", kinds[len(kinds)-1], "a result after the end would not be believed: %v", kinds)
}

func TestAnEvaluationWithoutItsModelIsNotLaunched(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	for name, c := range map[string]struct{ model, says string }{
		"the checkpoint was removed": {"", "checkpoint ckpt_1, which is to be scored, was removed"},
		"it is on another node":      {filepath.Join(t.TempDir(), "gone"), "node n1 has no "},
	} {
		t.Run(name, func(t *testing.T) {
			o := evaluationOrder(c.model, "/dev/null")
			l.want(o)
			ended := l.ended(o.GetTask())
			require.Equal(t, v1.ErrorType_MODEL_NOT_FOUND, ended.GetErrorType())
			require.Contains(t, ended.GetErrorMessage(), c.says)
		})
	}
}

// A model that an evaluation names by its URI is fetched like the model of a training.
func TestAnEvaluationFetchesItsModel(t *testing.T) {
	url, _ := smallHub(t)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.HubURL = url
	inProcess(t, cfg)
	script := write(t, filepath.Join(t.TempDir(), "score.sh"), `[ "$1" = "$MIND_MODEL_PATH" ] && [ "$(cat "$MIND_MODEL_PATH/weights/a")" = 12345 ] && grep -q '"path":"hf://acme/m"' "$MIND_DATA_MANIFEST"`, 0o600)
	for uri, failure := range map[string]v1.ErrorType_Value{
		"hf://acme/m": v1.ErrorType_UNSPECIFIED, "hf://acme/none": v1.ErrorType_MODEL_NOT_FOUND, "/no/such/model": v1.ErrorType_MODEL_NOT_FOUND,
	} {
		o := evaluationOrder(uri, script)
		o.Spec.Job.EvaluationConfig.CheckpointId = ""
		l.want(o)
		end := l.ended(o.GetTask())
		require.Equal(t, failure.String(), end.GetErrorType().String(), end.GetErrorMessage())
	}
}
