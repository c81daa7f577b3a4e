package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// smallHub has one model, acme/m. It lists the weights in another format, too, and never serves these.
func smallHub(t *testing.T) (url string, asked *atomic.Int32) {
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/api/models/acme/m/revision/main", "/api/models/acme/m/revision/v1":
			_, _ = w.Write([]byte(`{"sha":"c1","gated":false,"siblings":[{"rfilename":"config.json","size":2},{"rfilename":"weights/a","size":5},
				{"rfilename":"model.safetensors","size":1},{"rfilename":"pytorch_model.bin","size":1}]}`))
		case "/acme/m/resolve/c1/config.json":
			_, _ = w.Write([]byte("{}"))
		case "/acme/m/resolve/c1/model.safetensors":
			_, _ = w.Write([]byte("s"))
		case "/acme/m/resolve/c1/weights/a":
			_, _ = w.Write([]byte("12345"))
		default:
			w.Header().Set("X-Error-Code", "RepoNotFound")
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// of makes an order train a model.
func of(o *v1.TaskOrder, m *v1.BaseModel) *v1.TaskOrder {
	o.Spec.Job.TrainingConfig.BaseModel = m
	return o
}

func TestATrainingFindsItsModel(t *testing.T) {
	url, asked := smallHub(t)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.HubURL, cfg.Data.Hosts = url, []string{"127.0.0.1"}
	inProcess(t, cfg)
	local := t.TempDir()
	write(t, filepath.Join(local, "weights", "a"), "12345", 0o600)
	rows := write(t, filepath.Join(t.TempDir(), "rows.jsonl"), "row\n", 0o600)
	for name, c := range map[string]struct {
		model *v1.BaseModel
		local bool
	}{
		"a bare name":        {&v1.BaseModel{ModelId: "acme/m"}, false},
		"at a revision":      {&v1.BaseModel{ModelId: "acme/m", Revision: "v1", Source: "huggingface"}, false},
		"a URL":              {&v1.BaseModel{ModelId: "hf://models/acme/m@v1"}, false},
		"a path":             {&v1.BaseModel{ModelId: local}, true},
		"a URL for a path":   {&v1.BaseModel{ModelId: "file://" + local}, true},
		"a part of a remote": {&v1.BaseModel{ModelId: "hf://acme/m/weights/a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			o := of(training(t, `find -L "$MIND_MODEL_PATH" -name a -exec cat {} + > `+out+` && cat "$MIND_DATA_DIR/0/rows.jsonl" >> `+out+` && cat "$MIND_DATA_MANIFEST" >> `+out+
				` && echo "$MIND_MODEL_PATH" > `+out+`.path && grep -q '"model_id":"`+c.model.GetModelId()+`"' "$MIND_CONFIG"`, rows), c.model)
			o.Spec.Launcher = &v1.Launcher{Framework: "CUSTOM", Argv: []string{"/bin/sh", "-c", `[ "$1" = "$MIND_MODEL_PATH" ] && exec /bin/sh "$2"`, "x", "{model}", "{script}"}}
			l.want(o)
			end := l.ended(o.GetTask())
			require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
			require.Nil(t, failureOf(end))
			got, manifest, _ := strings.Cut(read(t, out), "{")
			require.Equal(t, "12345row\n", got)
			var m struct {
				Sources []struct{ Index int }
				Model   struct {
					Path, Dir, Digest string
					Local             bool
					Files             []string
					Size              int64 `json:"size_bytes"`
					Source            struct {
						ModelID string `json:"model_id"`
					}
				}
			}
			require.NoError(t, json.Unmarshal([]byte("{"+manifest), &m))
			require.Len(t, m.Sources, 1)
			require.Equal(t, c.model.GetModelId(), m.Model.Path)
			require.Equal(t, c.model.GetModelId(), m.Model.Source.ModelID)
			require.Equal(t, strings.TrimSpace(read(t, out+".path")), m.Model.Dir)
			require.Equal(t, c.local, m.Model.Local)
			require.Equal(t, !c.local, m.Model.Digest != "")
			require.NotEmpty(t, m.Model.Files)
		})
	}
	// The program resolves a model that is on no hub.
	before := asked.Load()
	o := of(training(t, `[ "$MIND_MODEL_PATH" = acme/m ]`, rows), &v1.BaseModel{ModelId: "acme/m", Source: "program"})
	l.want(o)
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
	require.Equal(t, before, asked.Load())
}

func failureOf(end *v1.TaskEnded) *v1.ErrorType_Value {
	if end.GetErrorType() == v1.ErrorType_UNSPECIFIED {
		return nil
	}
	return end.GetErrorType().Enum()
}

func TestABareNameIsThePrograms_whereNoHubIsConfigured(t *testing.T) {
	l := newLeader(t)
	inProcess(t, testConfig(t, l))
	rows := write(t, filepath.Join(t.TempDir(), "rows.jsonl"), "row\n", 0o600)
	o := of(training(t, `[ "$MIND_MODEL_PATH" = meta-llama/Llama-3-8B ]`, rows), &v1.BaseModel{ModelId: "meta-llama/Llama-3-8B"})
	l.want(o)
	end := l.ended(o.GetTask())
	require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
}

func TestAModelThatCannotBeHad(t *testing.T) {
	url, _ := smallHub(t)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.HubURL, cfg.Data.CacheBytes, cfg.Data.Hosts = url, 6, []string{"127.0.0.1"}
	inProcess(t, cfg)
	rows := write(t, filepath.Join(t.TempDir(), "rows.jsonl"), "row\n", 0o600)
	for name, c := range map[string]struct {
		model, says string
		failure     v1.ErrorType_Value
	}{
		"no such repository":   {"acme/none", "among its models, or keeps it private: check the name", v1.ErrorType_MODEL_NOT_FOUND},
		"who else could know":  {"acme/none", `set base_model.source to "program"`, v1.ErrorType_MODEL_NOT_FOUND},
		"no such path":         {os.TempDir() + "/no/such/model", "/no/such/model: node n1 has no such file", v1.ErrorType_MODEL_NOT_FOUND},
		"nobody signed in":     {"scaidrive://acme/models/a/", "scaidrive_url", v1.ErrorType_DATA_FETCH},
		"there is no room":     {"acme/m", "does not fit", v1.ErrorType_DATA_FETCH},
		"what may not be read": {cfg.DataDir, "no such file", v1.ErrorType_MODEL_NOT_FOUND},
		"what is not listed":   {"/etc/ssl", "data_roots of the agent", v1.ErrorType_MODEL_NOT_FOUND},
	} {
		t.Run(name, func(t *testing.T) {
			o := of(training(t, "exit 0", rows), &v1.BaseModel{ModelId: c.model})
			l.want(o)
			end := l.ended(o.GetTask())
			require.Equal(t, c.failure.String(), end.GetErrorType().String(), end.GetErrorMessage())
			require.Contains(t, end.GetErrorMessage(), c.says)
			require.Nil(t, end.ExitCode)
			require.NotContains(t, l.kinds(o.GetTask()), "Running")
		})
	}
}

// A model is held like data, also across a restart of the agent.
func TestAModelThatIsUsedIsNotEvicted(t *testing.T) {
	url, _ := smallHub(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		_, _ = w.Write([]byte("12345"))
	}))
	defer other.Close()
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.HubURL, cfg.Data.CacheBytes, cfg.Data.Hosts = url, 10, []string{"127.0.0.1"}
	stop := inProcess(t, cfg)
	rows := write(t, filepath.Join(t.TempDir(), "rows.jsonl"), "row\n", 0o600)
	gate := filepath.Join(t.TempDir(), "gate")
	user := of(training(t, `while [ ! -e `+gate+` ]; do sleep 0.01; done; test -s "$MIND_MODEL_PATH/config.json"`, rows), &v1.BaseModel{ModelId: "acme/m"})
	l.want(user)
	l.running(user.GetTask())
	stop()
	inProcess(t, cfg)
	l.hello(1)
	intruder := training(t, "exit 0", other.URL+"/x")
	l.want(user, intruder)
	require.Contains(t, l.ended(intruder.GetTask()).GetErrorMessage(), "does not fit")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Zero(t, l.ended(user.GetTask()).GetExitCode())
}

// The progress of a transfer is reported while it takes time; a fast one is not reported.
func TestTransfersAreTold(t *testing.T) {
	gate := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Method == http.MethodGet && r.URL.Path == "/slow" {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("12345"))
			w.(http.Flusher).Flush()
			select {
			case <-gate:
			case <-r.Context().Done():
			}
			_, _ = w.Write([]byte("67890"))
			return
		}
		_, _ = w.Write([]byte("1234567890"))
	}))
	defer slow.Close()
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.Hosts, cfg.Data.TellEvery = []string{"127.0.0.1"}, 10*time.Millisecond
	inProcess(t, cfg)
	o := training(t, "exit 0", slow.URL+"/slow?sig=hunter2")
	l.want(o)
	got := l.reported(o.GetTask(), "how far it is", func(r *v1.Report) bool { return r.GetTransfer().GetDoneBytes() == 5 }).GetTransfer()
	require.Equal(t, slow.URL+"/slow?...", got.GetPath())
	require.EqualValues(t, 10, got.GetTotalBytes())
	require.False(t, got.GetWaiting())
	close(gate)
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
	l.reported(o.GetTask(), "that it is here", func(r *v1.Report) bool { return r.GetTransfer() != nil && r.GetTransfer().GetPath() == "" })
}

func TestWhatTakesNoTimeIsNotTold(t *testing.T) {
	var gets atomic.Int32
	server := rows(t, openGate(), &gets)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.Hosts, cfg.Data.TellEvery = []string{"127.0.0.1"}, time.Hour
	inProcess(t, cfg)
	o := training(t, "exit 0", server.URL+"/rows.jsonl")
	l.want(o)
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
	require.NotContains(t, l.kinds(o.GetTask()), "Transfer")
}
