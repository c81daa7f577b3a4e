package catalog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestEvaluate_flagsBecomeFields(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evaluation.yaml")
	require.NoError(t, os.WriteFile(file, []byte("job_id: job_9\nbenchmarks: [{name: own, dataset: /data/own}]\nresource_config: {gpu_count: 4, gpu_type: A100}\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a job": {[]string{"job_1", "--benchmark", "mmlu:100", "--benchmark", "arc:challenge"}, `{"job_id":"job_1","benchmarks":[{"name":"mmlu","num_samples":100},{"name":"arc:challenge"}]}`},
		"a model, with all": {
			[]string{
				"hf://a/b", "--benchmark", "own", "--dataset", "own=s3://b/own", "--param", "temperature=0.0", "--name", "n", "--label", "a=b", "--gpus", "2", "--gpu-type", "H100",
				"--memory", "1Gi", "--queue", "q", "--priority", "9", "--max-retries", "1", "--retry-on", "exit", "--time-limit", "1m", "--node-selector", "name=n1",
			},
			`{"model_uri":"hf://a/b","name":"n","labels":{"a":"b"},"benchmarks":[{"name":"own","dataset":"s3://b/own","parameters":{"temperature":"0.0"}}],
			"resource_config":{"gpu_count":2,"gpu_type":"H100","memory_mb":1024,"node_selector":{"name":"n1"}},
			"scheduling_config":{"queue":"q","priority":9,"max_retries":1,"retry_on":["exit"],"max_runtime_seconds":60}}`,
		},
		"a checkpoint, and CPUs beside one GPU": {
			[]string{"job_1", "--checkpoint", "ckpt_1", "--benchmark", "b", "--cpus", "3"},
			`{"job_id":"job_1","checkpoint_id":"ckpt_1","benchmarks":[{"name":"b"}],"resource_config":{"cpu_count":3,"gpu_count":1}}`,
		},
		"no GPU":             {[]string{"/models/a", "--benchmark", "b", "--gpus", "0"}, `{"model_uri":"/models/a","benchmarks":[{"name":"b"}],"resource_config":{"gpu_count":0}}`},
		"a part of a GPU":    {[]string{"/models/a", "--benchmark", "b", "--gpu-fraction", "0.5"}, `{"model_uri":"/models/a","benchmarks":[{"name":"b"}],"resource_config":{"gpu_fraction":0.5}}`},
		"a file":             {[]string{"-f", file}, `{"job_id":"job_9","benchmarks":[{"name":"own","dataset":"/data/own"}],"resource_config":{"gpu_count":4,"gpu_type":"A100"}}`},
		"a file, and others": {[]string{"job_8", "-f", file, "--cpus", "2"}, `{"job_id":"job_8","benchmarks":[{"name":"own","dataset":"/data/own"}],"resource_config":{"gpu_count":4,"gpu_type":"A100","cpu_count":2}}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := clitest.NewGateway(t)
			g.On("POST /evaluations", clitest.Answer(201, `{"evaluation_id":"eval_1","status":"PENDING"}`))
			stdout, stderr, code := clitest.Run(t, append([]string{"evaluate"}, c.args...)...)
			require.Zero(t, code, stderr)
			require.Equal(t, "eval_1\n", stdout, "the id alone")
			require.JSONEq(t, c.want, g.Bodies[0])
			require.NotEmpty(t, g.Keys[0])
		})
	}
	clitest.NewGateway(t)
	for name, args := range map[string][]string{
		"nothing to score":     {"--benchmark", "b"},
		"by nothing":           {"job_1"},
		"data for nothing":     {"job_1", "--benchmark", "b", "--dataset", "c=/x"},
		"parameters for files": {"-f", file, "--param", "a=b"},
		"no pair":              {"job_1", "--benchmark", "b", "--param", "a"},
		"no file":              {"-f", file + ".none"},
		"no time":              {"job_1", "--benchmark", "b", "--time-limit", "1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := clitest.Run(t, append([]string{"evaluate"}, args...)...)
			require.Equal(t, 2, code, stderr)
		})
	}
}

const scoredAll = `{"evaluation_id":"eval_1","name":"n","status":"COMPLETED","workload_job_id":"job_1","job_id":"job_0","checkpoint_id":"ckpt_1",
	"benchmarks":[{"name":"mmlu","num_samples":100},{"name":"arc"}],
	"results":[{"name":"mmlu","metrics":{"accuracy":0.5,"f1":1e-9},"num_samples":100,"error":"","attempt":1},{"name":"arc","metrics":{"accuracy":0.25},"num_samples":9,"attempt":2}]}`

func TestEvaluate_waits(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		code   int
		stdout []string
		stderr string
	}{
		"with all results": {scoredAll, 0, []string{"eval_1\n", "mmlu       100      1        accuracy=0.5 f1=1e-09\n"}, ""},
		"without one": {
			`{"evaluation_id":"eval_1","status":"COMPLETED","workload_job_id":"job_1","benchmarks":[{"name":"mmlu"}],"results":[]}`,
			1,
			[]string{"no result"},
			"eval_1 has no results for mmlu",
		},
		"with a failed one": {
			`{"evaluation_id":"eval_1","status":"COMPLETED","workload_job_id":"job_1","benchmarks":[{"name":"mmlu"}],"results":[{"name":"mmlu","metrics":null,"error":"no sandbox"}]}`,
			1,
			[]string{"no sandbox"},
			"eval_1 has no results for mmlu",
		},
		"to be canceled": {`{"evaluation_id":"eval_1","status":"CANCELLED","workload_job_id":"job_1","benchmarks":[],"results":[]}`, 75, nil, "canceled"},
		"to fail":        {`{"evaluation_id":"eval_1","status":"FAILED","workload_job_id":"job_1","benchmarks":[],"results":[]}`, 7, nil, "EXIT_NONZERO"},
	} {
		t.Run(name, func(t *testing.T) {
			g := clitest.NewGateway(t)
			g.On("POST /evaluations", clitest.Answer(201, `{"evaluation_id":"eval_1","status":"PENDING"}`))
			g.On("GET /evaluations/eval_1", clitest.Answer(200, c.answer))
			g.On("GET /jobs/job_1", clitest.Answer(200, `{"job_id":"job_1","status":"FAILED","exit_code":7,"error_type":"EXIT_NONZERO"}`))
			stdout, stderr, code := clitest.Run(t, "evaluate", "job_0", "--benchmark", "mmlu", "--wait")
			require.Equal(t, c.code, code, stderr)
			for _, want := range c.stdout {
				require.Contains(t, stdout, want)
			}
			require.Contains(t, stderr, c.stderr)
		})
	}
}

func TestEvaluations_areShown(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /evaluations", clitest.Answer(200, `{"evaluations":[`+scoredAll+`,{"evaluation_id":"eval_2","status":"QUEUED","model_uri":"hf://a/b","benchmarks":[{"name":"x"}],"reason":"no GPU is free"}],"next_page_token":"","total_count":2}`))
	g.On("GET /evaluations/eval_1", clitest.Answer(200, scoredAll))
	g.On("GET /evaluations/compare", clitest.Answer(200, `{"evaluations":[{"evaluation_id":"eval_1"},{"evaluation_id":"eval_2"},{"evaluation_id":"eval_3"}],"rows":[
		{"benchmark":"mmlu","metric":"accuracy","values":[{"value":0.5,"delta":null},{"value":0.25,"delta":-0.25},{"value":null,"delta":null}]},
		{"benchmark":"mmlu","metric":"f1","values":[{"value":0.5,"delta":null},{"value":0.25,"delta":-0.25,"beyond_noise":true},{"value":0.625,"delta":0.125,"beyond_noise":false}]}]}`))
	stdout, stderr, code := clitest.Run(t, "evaluations", "--job", "job_0", "--status", "completed")
	require.Zero(t, code, stderr)
	require.Regexp(t, `eval_1 +job_0 at ckpt_1 +COMPLETED +2 of 2`, stdout)
	require.Regexp(t, `eval_2 +hf://a/b +QUEUED +0 of 1 +no GPU is free`, stdout)
	stdout, stderr, code = clitest.Run(t, "evaluation", "eval_1")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "job_0 at ckpt_1")
	require.Contains(t, stdout, "accuracy=0.25")
	stdout, stderr, code = clitest.Run(t, "evaluations", "compare", "eval_1", "eval_2", "eval_3")
	require.Zero(t, code, stderr)
	require.Regexp(t, `mmlu +accuracy +0.5 +0.25 \(-0.25\) +-\n`, stdout)
	require.Regexp(t, `mmlu +f1 +0.5 +0.25 \(-0.25\*\) +0.625 \(\+0.125, noise\)\n`, stdout)
	for _, args := range [][]string{{"evaluations", "compare", "eval_1"}, {"evaluation"}, {"evaluations", "x"}} {
		_, stderr, code := clitest.Run(t, args...)
		require.Equal(t, 2, code, "%v %s", args, stderr)
	}
	for _, args := range [][]string{{"evaluations", "-o", "json"}, {"evaluation", "eval_1", "-o", "yaml"}, {"evaluations", "compare", "eval_1", "eval_2", "-o", "json"}} {
		stdout, _, code := clitest.Run(t, args...)
		require.Zero(t, code, args)
		require.Contains(t, stdout, "eval_1")
	}
}
