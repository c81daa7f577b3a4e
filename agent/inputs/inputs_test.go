package inputs

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// store serves a file of a size at any path, and 404 below /none.
func store(t *testing.T, size int) (url string, gets *atomic.Int32) {
	gets = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/none") {
			http.NotFound(w, r)
			return
		}
		if r.Method == http.MethodGet {
			gets.Add(1)
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", r.URL.Path))
		_, _ = w.Write([]byte(strings.Repeat("x", size)))
	}))
	t.Cleanup(server.Close)
	return server.URL, gets
}

// opened opens the Inputs of a node with a cache of 1000 bytes.
func opened(t *testing.T, dir string, change func(*Config)) *Inputs {
	t.Helper()
	cfg := Config{CacheBytes: 1000, Hosts: []string{"127.0.0.1"}}
	if change != nil {
		change(&cfg)
	}
	require.NoError(t, cfg.Validate(dir))
	in, err := Open(cfg, "n1", dir, func(tenant string) string { return filepath.Join(dir, "outputs", tenant) }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return in
}

func task(n int) taskid.ID {
	return taskid.ID{Job: fmt.Sprintf("job_%d", n), Attempt: 1, Token: uint64(n)}
}

func needs(paths ...string) *v1.TaskSpec {
	spec := &v1.TaskSpec{TenantId: "acme", Job: &v1.SubmitJobRequest{TrainingConfig: &v1.TrainingConfig{}, DataConfig: &v1.DataConfig{}}}
	for _, p := range paths {
		spec.Job.DataConfig.Sources = append(spec.Job.DataConfig.Sources, &v1.DataSource{Path: p, Format: "jsonl"})
	}
	return spec
}

func trains(m *v1.BaseModel) *v1.TaskSpec {
	spec := needs()
	spec.Job.TrainingConfig.BaseModel = m
	return spec
}

func quiet(*v1.TransferReport) {}

// The sources are laid out by their numbers, and the manifest has their paths for the final name of the directory.
// Files of an earlier try are replaced.
func TestWrite_laysOutTheSources(t *testing.T) {
	url, _ := store(t, 12)
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "a.jsonl"), []byte("local rows\n"), 0o600))
	in := opened(t, t.TempDir(), func(c *Config) { c.Roots = []string{root} })
	spec := needs(url+"/rows.jsonl", root, filepath.Join(root, "a.jsonl"))
	require.True(t, in.Needed(task(1), spec))
	data, err := in.Fetch(t.Context(), task(1), spec, quiet)
	require.NoError(t, err)

	made, final := t.TempDir(), "/tasks/job_1"
	require.NoError(t, os.MkdirAll(filepath.Join(made, Folder), 0o755))
	require.NoError(t, os.Symlink("/elsewhere", filepath.Join(made, Folder, "0")))
	for range 2 {
		require.NoError(t, data.Write(made, final))
	}
	for name, want := range map[string]string{"0/rows.jsonl": strings.Repeat("x", 12), "1/a.jsonl": "local rows\n", "2/a.jsonl": "local rows\n"} {
		text, err := os.ReadFile(filepath.Join(made, Folder, name))
		require.NoError(t, err)
		require.Equal(t, want, string(text), name)
	}
	text, err := os.ReadFile(filepath.Join(made, Manifest))
	require.NoError(t, err)
	var told struct {
		Version int
		Model   any
		Sources []struct {
			Index     int
			Path, Dir string
			Local     bool
			Files     []string
			Digest    string
			Source    struct{ Format string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &told))
	require.Equal(t, 1, told.Version)
	require.Nil(t, told.Model)
	require.Len(t, told.Sources, 3)
	for i, s := range told.Sources {
		require.Equal(t, i, s.Index)
		require.Equal(t, spec.GetJob().GetDataConfig().GetSources()[i].GetPath(), s.Path)
		require.Equal(t, filepath.Join(final, Folder, fmt.Sprint(i)), s.Dir)
		require.Equal(t, i > 0, s.Local)
		require.Equal(t, i > 0, s.Digest == "", "what is used where it is has no digest")
		require.Len(t, s.Files, 1)
		require.Equal(t, "jsonl", s.Source.Format)
	}
}

// The datasets of an evaluation are fetched like sources, except the ones that are on the node already.
func TestFetch_theDatasetsOfAnEvaluation(t *testing.T) {
	url, gets := store(t, 12)
	scored := t.TempDir()
	in := opened(t, t.TempDir(), func(c *Config) { c.Roots = []string{scored} })
	spec := &v1.TaskSpec{TenantId: "acme", ModelPath: scored, Job: &v1.SubmitJobRequest{EvaluationConfig: &v1.EvaluationConfig{
		ModelUri: scored, Benchmarks: []*v1.Benchmark{
			{Name: "mmlu"},
			{Name: "own", Dataset: url + "/rows.jsonl"},
			{Name: "again", Dataset: url + "/rows.jsonl"},
			{Name: "here", Dataset: "/srv/rows.jsonl"},
			{Name: "there", Dataset: "file:///srv/rows.jsonl"},
		},
	}}}
	data, err := in.Fetch(t.Context(), task(1), spec, quiet)
	require.NoError(t, err)
	require.EqualValues(t, 1, gets.Load())
	made := t.TempDir()
	require.NoError(t, data.Write(made, "/tasks/job_1"))
	text, err := os.ReadFile(filepath.Join(made, Manifest))
	require.NoError(t, err)
	var told struct{ Sources []struct{ Path, Dir string } }
	require.NoError(t, json.Unmarshal(text, &told))
	require.Equal(t, []struct{ Path, Dir string }{{url + "/rows.jsonl", "/tasks/job_1/" + Folder + "/0"}}, told.Sources)
	rows, err := os.ReadFile(filepath.Join(made, Folder, "0", "rows.jsonl"))
	require.NoError(t, err)
	require.Len(t, rows, 12)
}

// Data that a task uses is not evicted until it is released, also after the agent has started again.
func TestHold_keepsWhatATaskUses(t *testing.T) {
	url, gets := store(t, 700)
	home, dir := t.TempDir(), t.TempDir()
	in := opened(t, home, nil)
	data, err := in.Fetch(t.Context(), task(1), needs(url+"/a"), quiet)
	require.NoError(t, err)
	require.NoError(t, data.Write(dir, dir))
	_, err = in.Fetch(t.Context(), task(2), needs(url+"/b"), quiet)
	require.ErrorContains(t, err, "does not fit")
	require.Equal(t, "DATA_FETCH", Failure(err))
	in.Release(task(2))

	in = opened(t, home, nil)
	in.Hold(task(1), dir)
	in.Hold(task(3), t.TempDir()) // a task without data
	_, err = in.Fetch(t.Context(), task(2), needs(url+"/b"), quiet)
	require.ErrorContains(t, err, "does not fit")
	in.Release(task(2))
	require.FileExists(t, filepath.Join(dir, Folder, "0", "a"))

	in.Release(task(1))
	before := gets.Load()
	_, err = in.Fetch(t.Context(), task(4), needs(url+"/b"), quiet)
	require.NoError(t, err, "what nobody uses makes way")
	require.Equal(t, before+1, gets.Load())
}

// The error shows users whether a model is missing or could not be fetched.
func TestFailure_saysWhatIsMissing(t *testing.T) {
	url, _ := store(t, 10)
	root := t.TempDir()
	in := opened(t, t.TempDir(), func(c *Config) { c.Roots, c.HubURL = []string{root}, url })
	scores := func(path string, e *v1.EvaluationConfig) *v1.TaskSpec {
		return &v1.TaskSpec{TenantId: "acme", ModelPath: path, Job: &v1.SubmitJobRequest{EvaluationConfig: e}}
	}
	for name, tt := range map[string]struct {
		spec *v1.TaskSpec
		kind string
		says string
	}{
		"a data source":         {needs(url + "/none"), "DATA_FETCH", "404"},
		"a local data source":   {needs(filepath.Join(root, "none")), "DATA_FETCH", "none"},
		"a model":               {trains(&v1.BaseModel{ModelId: filepath.Join(root, "none")}), "MODEL_NOT_FOUND", "none"},
		"a checkpoint removed":  {scores("", &v1.EvaluationConfig{CheckpointId: "ckpt_1"}), "MODEL_NOT_FOUND", "checkpoint ckpt_1, which is to be scored, was removed"},
		"a checkpoint not here": {scores(filepath.Join(root, "none"), &v1.EvaluationConfig{CheckpointId: "ckpt_1"}), "MODEL_NOT_FOUND", "node n1 has no " + filepath.Join(root, "none")},
	} {
		require.True(t, in.Needed(task(1), tt.spec), name)
		_, err := in.Fetch(t.Context(), task(1), tt.spec, quiet)
		require.ErrorContains(t, err, tt.says, name)
		require.Equal(t, tt.kind, Failure(err), "%s: %v", name, err)
		in.Release(task(1))
	}
	here := scores(root, &v1.EvaluationConfig{CheckpointId: "ckpt_1"})
	data, err := in.Fetch(t.Context(), task(1), here, quiet)
	require.NoError(t, err)
	require.Equal(t, root, ModelPath(here, "/tasks/job_1", data), "a checkpoint is used where it is")
}

// A bare name is looked up on the hub only if the operator has configured that; otherwise the program resolves it.
func TestModel_aBareName(t *testing.T) {
	in := opened(t, t.TempDir(), nil)
	spec := trains(&v1.BaseModel{ModelId: "acme/tiny"})
	require.False(t, in.Needed(task(1), spec))
	data, err := in.Fetch(t.Context(), task(1), spec, quiet)
	require.NoError(t, err)
	require.Equal(t, "acme/tiny", ModelPath(spec, "/tasks/job_1", data))

	hub := opened(t, t.TempDir(), func(c *Config) { c.HubToken = "hf_x" })
	require.True(t, hub.Needed(task(1), spec))
	require.False(t, hub.Needed(task(1), trains(&v1.BaseModel{ModelId: "acme/tiny", Source: "program"})))
	require.False(t, hub.Needed(task(1), &v1.TaskSpec{Job: &v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{Argv: []string{"true"}}}}), "a command says itself what it reads")
}

// A model on the node is used in place, and the process gets its path like that of a fetched model.
func TestModel_onTheNode(t *testing.T) {
	root := t.TempDir()
	weights := filepath.Join(root, "model.safetensors")
	require.NoError(t, os.WriteFile(weights, []byte("w"), 0o600))
	in := opened(t, t.TempDir(), func(c *Config) { c.Roots = []string{root} })
	for _, at := range []string{root, weights} {
		spec := trains(&v1.BaseModel{ModelId: at})
		data, err := in.Fetch(t.Context(), task(1), spec, quiet)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, data.Write(dir, dir))
		require.Equal(t, at, ModelPath(spec, dir, data))
		text, err := os.ReadFile(filepath.Join(dir, Manifest))
		require.NoError(t, err)
		var told struct {
			Model struct {
				Path, Dir string
				Local     bool
				Files     []string
			}
		}
		require.NoError(t, json.Unmarshal(text, &told))
		require.Equal(t, root, told.Model.Dir, "where its files are")
		require.Equal(t, []string{"model.safetensors"}, told.Model.Files)
		require.True(t, told.Model.Local)
		require.NoFileExists(t, filepath.Join(dir, modelDir))
	}
}
