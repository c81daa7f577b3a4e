package jobs

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func requestOf(t *testing.T, args ...string) (string, error) {
	t.Helper()
	o := &SubmitOptions{}
	cmd := &cobra.Command{}
	cmd.Flags().SetInterspersed(false)
	o.Bind(cmd)
	require.NoError(t, cmd.ParseFlags(args))
	body, err := o.Request(cmd.Flags(), cmd.Flags().Args(), func() (string, error) { return "/here", nil })
	text, marshalErr := json.Marshal(body)
	require.NoError(t, marshalErr)
	return string(text), err
}

func TestSubmitRequest_flagsBecomeFields(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"only a command": {
			[]string{"--", "/bin/sleep", "1"},
			`{"name":"sleep","command_config":{"argv":["/bin/sleep","1"],"cwd":"/here"}}`,
		},
		"resources": {
			[]string{"--gpus", "16", "--nodes=2", "--gpu-type", "H100", "--cpus", "4", "--memory", "64Gi", "--node-selector", "zone=a", "--topology", "nvlink", "x"},
			`{"name":"x","command_config":{"argv":["x"],"cwd":"/here"},"resource_config":{"gpu_count":16,"node_count":2,"gpu_type":"H100","cpu_count":4,"memory_mb":65536,"node_selector":{"zone":"a"},"topology":"nvlink"}}`,
		},
		"a fraction, a folder, an environment": {
			[]string{"--gpu-fraction", "0.25", "--cwd", "sub", "--env", "A=b=c", "--env", "D=", "--label", "team=x", "--name", "n", "x"},
			`{"name":"n","labels":{"team":"x"},"command_config":{"argv":["x"],"cwd":"/here/sub","environment":{"A":"b=c","D":""}},"resource_config":{"gpu_fraction":0.25}}`,
		},
		"mounts": {
			[]string{"--mount", "/data/a:/mnt", "--mount", "/scratch:/s:rw", "x"},
			`{"name":"x","command_config":{"argv":["x"],"cwd":"/here","mounts":["/data/a:/mnt","/scratch:/s:rw"]}}`,
		},
		"scheduling": {
			[]string{"--queue", "q", "--priority", "0", "--time-limit", "2h", "--max-retries", "3", "--retry-on", "node_lost,exit", "--lost-after", "2m", "--grace", "5s", "--preemptible", "--allow-pending-capacity", "x"},
			`{"name":"x","command_config":{"argv":["x"],"cwd":"/here"},"scheduling_config":{"queue":"q","priority":0,"max_runtime_seconds":7200,"max_retries":3,"retry_on":["node_lost","exit"],"lost_after_seconds":120,"grace_period_seconds":5,"preemptible":true,"allow_pending_capacity":true}}`,
		},
		"notices": {
			[]string{"--notify", "https://hooks.example/1", "--notify-on", "failed,waiting", "--notify-after", "30m", "x"},
			`{"name":"x","command_config":{"argv":["x"],"cwd":"/here"},"notify_config":{"url":"https://hooks.example/1","on":["failed","waiting"],"waiting_after_seconds":1800}}`,
		},
		"not restartable": {
			[]string{"--no-restart", "x"},
			`{"name":"x","command_config":{"argv":["x"],"cwd":"/here"},"scheduling_config":{"restartable":false}}`,
		},
		"what the server may refuse is sent all the same": {
			[]string{"--array", "0-9%3", "--after", "job_1", "--after", "job_2:any", "x"},
			`{"name":"x","command_config":{"argv":["x"],"cwd":"/here"},"scheduling_config":{"array":{"start":0,"end":9,"max_parallel":3},"dependencies":[{"job_id":"job_1","condition":"ok"},{"job_id":"job_2","condition":"any"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := requestOf(t, c.args...)
			require.NoError(t, err)
			require.JSONEq(t, c.want, got)
		})
	}
}

func TestSubmitRequest_aFileAndFlagsOverIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	require.NoError(t, os.WriteFile(file, []byte("name: from-file\nlabels: {a: b}\nresource_config: {gpu_count: 2, gpu_type: A100}\ncommand_config: {command: python train.py, cwd: /data}\n"), 0o600))
	got, err := requestOf(t, "-f", file, "--gpus", "4", "--env", "X=y")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"from-file","labels":{"a":"b"},"resource_config":{"gpu_count":4,"gpu_type":"A100"},"command_config":{"command":"python train.py","cwd":"/data","environment":{"X":"y"}}}`, got)

	got, err = requestOf(t, "-f", file, "--cwd", "/else", "--", "echo", "hi")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"from-file","labels":{"a":"b"},"resource_config":{"gpu_count":2,"gpu_type":"A100"},"command_config":{"argv":["echo","hi"],"cwd":"/else"}}`, got)

	uploaded := filepath.Join(t.TempDir(), "uploaded.yaml")
	require.NoError(t, os.WriteFile(uploaded, []byte("name: u\ncommand_config: {command: make, upload: \"sha256:1\"}\n"), 0o600))
	got, err = requestOf(t, "-f", uploaded)
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"u","command_config":{"command":"make","upload":"sha256:1"}}`, got)
	got, err = requestOf(t, "--upload", ".", "--cwd", "src", "--", "make")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"make","command_config":{"argv":["make"],"cwd":"src"}}`, got)
	got, err = requestOf(t, "--upload", ".", "--", "make")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"make","command_config":{"argv":["make"]}}`, got)

	training := filepath.Join(t.TempDir(), "training.yaml")
	require.NoError(t, os.WriteFile(training, []byte("name: t\ntraining_config: {training_type: LORA}\n"), 0o600))
	_, err = requestOf(t, "-f", training, "--upload", ".")
	require.ErrorContains(t, err, "--upload is for commands")
	got, err = requestOf(t, "-f", training, "--env", "X=y", "--gpus", "1")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"t","training_config":{"training_type":"LORA","environment":{"X":"y"}},"resource_config":{"gpu_count":1}}`, got)

	_, err = requestOf(t, "-f", filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorContains(t, err, "none.yaml")
}

func TestSubmitRequest_faults(t *testing.T) {
	for want, args := range map[string][]string{
		"nothing to run":                                    {},
		`--memory: "64 elephants" is not`:                   {"--memory", "64 elephants", "x"},
		`--env: "A" is not of the form`:                     {"--env", "A", "x"},
		`--label: "=b" is not of the form`:                  {"--label", "=b", "x"},
		`--array: "3" is not of the form`:                   {"--array", "3", "x"},
		`--after: "job_1:soon" is not`:                      {"--after", "job_1:soon", "x"},
		"--time-limit: 1.5s: it must be whole seconds":      {"--time-limit", "1500ms", "x"},
		"--lost-after: -1m0s: it must not be negative":      {"--lost-after", "-1m", "x"},
		"--gpu-fraction: NaN: it must be a part of one GPU": {"--gpu-fraction", "NaN", "x"},
		"--gpu-fraction: 1.5: it must be a part of one GPU": {"--gpu-fraction", "1.5", "x"},
		"--pack and --spread contradict each other":         {"--pack", "--spread", "x"},
		"--venv: the job sets PATH itself":                  {"--venv", "v", "--env", "PATH=/bin", "x"},
		"--venv: give the directory of":                     {"--venv", "", "x"},
		"--env: A is given twice":                           {"--env", "A=1", "--env", "A=2", "x"},
		"--label: team is given twice":                      {"--label", "team=a", "--label", "team=a", "x"},
		`--node-selector: "zone" is not of`:                 {"--node-selector", "zone", "x"},
		`--after: "" is not of the form JOB,`:               {"--after", "", "x"},
	} {
		_, err := requestOf(t, args...)
		require.ErrorContains(t, err, want)
	}
}

func TestSubmitRequest_refusesWhatIsNotUTF8(t *testing.T) {
	for at, args := range map[string][]string{
		"command_config.argv[1]":       {"cat", "f\xff"},
		"name":                         {"--name", "\xff\xfe", "x"},
		"command_config.environment.A": {"--env", "A=\xff", "x"},
		"labels":                       {"--label", "\xff=a", "x"},
		"command_config.cwd":           {"--cwd", "/\xff", "x"},
	} {
		_, err := requestOf(t, args...)
		require.ErrorContains(t, err, at)
		require.ErrorContains(t, err, "is not UTF-8")
	}
}

func TestReadBody_sendsWhatIsWritten(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"JSON":                                   {`{"name":"a","command_config":{"argv":["x"],"cwd":"/"}}`, `{"name":"a","command_config":{"argv":["x"],"cwd":"/"}}`},
		"a date is text":                         {"name: a\ncommand_config: {argv: [x], cwd: /}\nlabels: {date: 2026-01-01}\n", `{"name":"a","command_config":{"argv":["x"],"cwd":"/"},"labels":{"date":"2026-01-01"}}`},
		"a time is text":                         {"name: a\ncommand_config: {argv: [x], cwd: /}\nscheduling_config: {not_before: 2026-01-01T00:00:00Z}\n", `{"name":"a","command_config":{"argv":["x"],"cwd":"/"},"scheduling_config":{"not_before":"2026-01-01T00:00:00Z"}}`},
		"a key is text":                          {"name: a\ncommand_config: {argv: [x], cwd: /, environment: {1: a, true: b}}\n", `{"name":"a","command_config":{"argv":["x"],"cwd":"/","environment":{"1":"a","true":"b"}}}`},
		"anchors and merge keys":                 {"name: a\ncommand_config: &c {argv: [x], cwd: /}\nresource_config: &r {gpu_count: 1}\noutput_config: {<<: *r}\n", `{"name":"a","command_config":{"argv":["x"],"cwd":"/"},"resource_config":{"gpu_count":1},"output_config":{"gpu_count":1}}`},
		"a wrong type is the gateway's business": {"name: 5\ncommand_config: {argv: [x], cwd: /}\n", `{"name":5,"command_config":{"argv":["x"],"cwd":"/"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "job.yaml")
			require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
			got, err := requestOf(t, "-f", file)
			require.NoError(t, err)
			require.JSONEq(t, c.want, got)
		})
	}
}

func TestReadBody_fromStdin(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdin := os.Stdin
	os.Stdin = r
	t.Cleanup(func() { os.Stdin = stdin })
	go func() {
		_, _ = io.WriteString(w, `{"name":"piped","command_config":{"argv":["x"]}}`)
		_ = w.Close()
	}()
	got, err := requestOf(t, "-f", "-")
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"piped","command_config":{"argv":["x"],"cwd":"/here"}}`, got)
}
