package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func scores(found []finding) []string {
	var out []string
	for _, f := range found {
		if e := f.body.GetEvaluation(); e != nil {
			out = append(out, fmt.Sprintf("%s %s %d %s", e.GetBenchmark(), e.GetMetricsJson(), e.GetNumSamples(), e.GetError()))
		}
	}
	return out
}

func TestResultsOfAnEvaluation(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"figures":          {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"f1":1, "accuracy":0.71},"num_samples":100}`, `mmlu {"accuracy":0.71,"f1":1} 100 `},
		"an error":         {`{"event":"evaluation_result","benchmark":"mmlu","error":"no sandbox"}`, `mmlu  0 no sandbox`},
		"both":             {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":1},"error":"half"}`, `mmlu {"a":1} 0 half`},
		"Python's NaN":     {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":1,"b":NaN}}`, `mmlu {"a":1} 0 `},
		"nothing but NaN":  {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"b":NaN}}`, `mmlu  0 no number is among the metrics that were reported`},
		"no metrics":       {`{"event":"evaluation_result","benchmark":"mmlu"}`, `mmlu  0 the workload reported no metrics`},
		"a word":           {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":"b"}}`, `mmlu  0 the metrics that were reported are no JSON object of numbers`},
		"samples beyond":   {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":1},"num_samples":1e300}`, `mmlu {"a":1} 2147483647 `},
		"less than no":     {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":1},"num_samples":-5}`, `mmlu {"a":1} 0 `},
		"no benchmark":     {`{"event":"evaluation_result","metrics":{"a":1}}`, ``},
		"samples as words": {`{"event":"evaluation_result","benchmark":"mmlu","num_samples":"all"}`, ``},
		"many figures":     {`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"` + strings.Repeat("x", maxResultBytes) + `":1}}`, `mmlu  0 the metrics that were reported take 16390 bytes; at most 16384 are kept`},
		"a long error":     {`{"event":"evaluation_result","benchmark":"mmlu","error":"` + strings.Repeat("ä", 600) + `"}`, `mmlu  0 ` + strings.Repeat("ä", 512)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			w.announce(c.line)
			require.Equal(t, c.want, strings.Join(scores(w.scan(time.Unix(1000, 0), false)), "\n"))
		})
	}
}

// What was found and not acknowledged is told by the next agent, in its order and once; what was acknowledged is not.
func TestResultsOutliveTheAgent(t *testing.T) {
	w := newWatched(t)
	now := time.Unix(1000, 0)
	say := func(value int) {
		w.announce(fmt.Sprintf(`{"event":"evaluation_result","benchmark":"mmlu","metrics":{"a":%d}}`, value))
	}
	say(1)
	say(2)
	found := w.scan(now, false)
	require.Equal(t, []string{`mmlu {"a":1} 0 `, `mmlu {"a":2} 0 `}, scores(found))
	require.Empty(t, scores(w.scan(now, false)))
	found[0].acked()
	w = w.restarted()
	say(3)
	found = w.scan(now, false)
	require.Equal(t, []string{`mmlu {"a":2} 0 `, `mmlu {"a":3} 0 `}, scores(found))
	for _, f := range found {
		f.acked()
	}
	w = w.restarted()
	require.Empty(t, scores(w.scan(now, true)), "an older result must not take the place of a newer one")
}

func TestResultsOfOneTaskAreBounded(t *testing.T) {
	w := newWatched(t)
	for i := range maxResults + 5 {
		w.announce(fmt.Sprintf(`{"event":"evaluation_result","benchmark":"b%d","metrics":{"a":1}}`, i))
	}
	require.Len(t, scores(w.scan(time.Unix(1000, 0), false)), maxResults)
}

func evaluationOrder(model, script string) *v1.TaskOrder {
	o := order()
	o.Spec.Job = &v1.SubmitJobRequest{
		Name: "e", EvaluationConfig: &v1.EvaluationConfig{CheckpointId: "ckpt_1", Benchmarks: []*v1.Benchmark{{Name: "mmlu", NumSamples: 100}}},
	}
	o.Spec.ModelPath = model
	o.Spec.Launcher = &v1.Launcher{Framework: "EVALUATION", Argv: []string{"/bin/sh", script, "{model}"}}
	return o
}

// An evaluation from its launcher to its result, with nothing but a shell.
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
		"the checkpoint was removed": {"", "checkpoint ckpt_1, which was to be scored, was removed"},
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

// What an evaluation scores by its URI is fetched like the model of a training.
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
