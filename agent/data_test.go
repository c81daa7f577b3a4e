package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
)

// training is an order for a script that has data.
func training(t *testing.T, script string, sources ...string) *v1.TaskOrder {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.sh")
	require.NoError(t, os.WriteFile(path, []byte(script), 0o600))
	o := order()
	o.Spec.TenantId = "acme"
	o.Spec.Job = &v1.SubmitJobRequest{
		TrainingConfig: &v1.TrainingConfig{Framework: &v1.Framework{Type: v1.FrameworkType_CUSTOM, CustomScriptPath: path}},
		DataConfig:     &v1.DataConfig{},
	}
	for _, s := range sources {
		o.Spec.Job.DataConfig.Sources = append(o.Spec.Job.DataConfig.Sources, &v1.DataSource{Path: s, Format: "jsonl"})
	}
	return o
}

// rows serves a file; requests for it wait while gate is not closed.
func rows(t *testing.T, gate chan struct{}, gets *atomic.Int32) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/rows.jsonl" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", `"1"`)
		if r.Method == http.MethodGet {
			gets.Add(1)
			select {
			case <-gate:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = w.Write([]byte("remote rows\n"))
	}))
	t.Cleanup(server.Close)
	return server
}

func openGate() chan struct{} {
	gate := make(chan struct{})
	close(gate)
	return gate
}

func TestATaskFindsItsData(t *testing.T) {
	var gets atomic.Int32
	server := rows(t, openGate(), &gets)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.Hosts = []string{"127.0.0.1"}
	inProcess(t, cfg)
	local := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(local, "a.jsonl"), []byte("local rows\n"), 0o600))
	out := filepath.Join(t.TempDir(), "out")
	script := `cat "$MIND_DATA_DIR/0/rows.jsonl" "$MIND_DATA_DIR/1/a.jsonl" "$MIND_DATA_DIR/2/a.jsonl" > ` + out + `; cat "$MIND_DATA_MANIFEST" >> ` + out
	first := training(t, script, server.URL+"/rows.jsonl", local, "file://"+local+"/a.jsonl")
	l.want(first)
	end := l.ended(first.GetTask())
	require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	read, manifest, _ := strings.Cut(string(text), "{")
	require.Equal(t, "remote rows\nlocal rows\nlocal rows\n", read)
	var got struct {
		Version int
		Sources []struct {
			Path   string
			Dir    string
			Local  bool
			Files  []string
			Count  int   `json:"file_count"`
			Size   int64 `json:"size_bytes"`
			Digest string
			Source struct{ Format string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte("{"+manifest), &got))
	require.Equal(t, 1, got.Version)
	require.Len(t, got.Sources, 3)
	require.Equal(t, []string{"rows.jsonl"}, got.Sources[0].Files)
	require.EqualValues(t, 12, got.Sources[0].Size)
	require.Len(t, got.Sources[0].Digest, 64)
	require.False(t, got.Sources[0].Local)
	require.True(t, got.Sources[1].Local)
	require.Equal(t, "jsonl", got.Sources[2].Source.Format)
	require.Equal(t, 1, got.Sources[2].Count)
	require.Equal(t, filepath.Join(cfg.DataDir, "tasks", taskid.Of(first.GetTask()).Name(), "data", "2"), got.Sources[2].Dir)

	second := training(t, "exit 0", server.URL+"/rows.jsonl")
	l.want(second)
	require.Zero(t, l.ended(second.GetTask()).GetExitCode())
	require.EqualValues(t, 1, gets.Load(), "it was fetched again")
}

func TestDataThatCannotBeHadEndsTheTask(t *testing.T) {
	var gets atomic.Int32
	server := rows(t, openGate(), &gets)
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg) // the loopback addresses are not allowed hosts
	for source, want := range map[string]string{
		"/no/such/file":                     "data source /no/such/file: jobs may not read files there on node n1: put it below " + os.TempDir(),
		os.TempDir() + "/no/such":           "node n1 has no such file",
		server.URL + "/rows.jsonl":          "data_hosts",
		filepath.Join(cfg.DataDir, "epoch"): "no such file",
		"scaidrive://acme/x":                "scaidrive_url",
	} {
		o := training(t, "exit 0", source)
		l.want(o)
		end := l.ended(o.GetTask())
		require.Equal(t, v1.ErrorType_DATA_FETCH, end.GetErrorType(), end.GetErrorMessage())
		require.Nil(t, end.ExitCode)
		require.Contains(t, end.GetErrorMessage(), want)
		require.NotContains(t, l.kinds(o.GetTask()), "Running")
	}
	require.Zero(t, gets.Load())
}

// Both archives of an agent have what jobs of all tenants wrote, and the agent may have a key that opens them.
func TestNoDataIsTakenFromTheArchives(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	l := newLeader(t)
	cfg := testConfig(t, l)
	key := archive.Access{KeyID: "id", Secret: "secret"}
	cfg.CheckpointArchive.URL, cfg.CheckpointArchive.Access = "s3://kept/mind?region=us-east-1&endpoint="+server.URL, key
	cfg.LogArchive.URL, cfg.LogArchive.Access = "s3://logs?region=us-east-1&endpoint="+server.URL, key
	cfg.Data.S3.Endpoint, cfg.Data.S3.Region = server.URL, "us-east-1"
	inProcess(t, cfg)
	for source, want := range map[string]string{
		"s3://kept/mind/checkpoints/victim/job_1/ckpt_1/f": "s3://kept is the archive of node",
		"s3://logs/manifests/job_1":                        "s3://logs is the archive of node",
		"s3://kept/data":                                   "denies access",
	} {
		o := training(t, "exit 0", source)
		l.want(o)
		end := l.ended(o.GetTask())
		require.Equal(t, v1.ErrorType_DATA_FETCH, end.GetErrorType(), end.GetErrorMessage())
		require.Contains(t, end.GetErrorMessage(), want)
	}
}

func TestATaskThatWaitsForItsDataCanBeStopped(t *testing.T) {
	var gets atomic.Int32
	gate := make(chan struct{})
	server := rows(t, gate, &gets)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.Hosts, cfg.MaxLaunches = []string{"*"}, 1
	inProcess(t, cfg)
	waiting := training(t, "exit 0", server.URL+"/rows.jsonl")
	l.want(waiting)
	require.Eventually(t, func() bool { return gets.Load() == 1 }, 30*time.Second, time.Millisecond)
	l.await("a task that is seen to be prepared", func() bool {
		for _, r := range l.reports {
			if r.GetTask().GetJobId() == waiting.GetTask().GetJobId() && r.GetStarting() != nil {
				return true
			}
		}
		return false
	})
	// It does not block tasks without data, not even if only one task is launched at a time.
	other := order("true")
	l.want(waiting, other)
	require.Zero(t, l.ended(other.GetTask()).GetExitCode())
	l.want(stopped(waiting, v1.StopReason_CANCEL, 30))
	end := l.ended(waiting.GetTask())
	require.Contains(t, end.GetErrorMessage(), "stopped before it was launched")
	require.NotEqual(t, v1.ErrorType_DATA_FETCH, end.GetErrorType())

	close(gate)
	again := training(t, "exit 4", server.URL+"/rows.jsonl")
	l.want(again)
	require.EqualValues(t, 4, l.ended(again.GetTask()).GetExitCode())
}

// A transfer that two tasks wait for continues when one of them is canceled, and ends when both are.
func TestACanceledTaskLeavesTheTransferToOthers(t *testing.T) {
	var gets atomic.Int32
	gate, gone := make(chan struct{}), make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Method == http.MethodGet {
			gets.Add(1)
			select {
			case <-gate:
			case <-r.Context().Done():
				gone <- struct{}{}
				return
			}
		}
		_, _ = w.Write([]byte("rows"))
	}))
	defer server.Close()
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.Hosts, cfg.Data.TellEvery = []string{"127.0.0.1"}, 10*time.Millisecond
	inProcess(t, cfg)
	one, two := training(t, "exit 0", server.URL+"/x"), training(t, "exit 7", server.URL+"/x")
	l.want(one, two)
	for _, o := range []*v1.TaskOrder{one, two} {
		l.reported(o.GetTask(), "that it waits", func(r *v1.Report) bool { return r.GetTransfer().GetPath() != "" })
	}
	l.want(stopped(one, v1.StopReason_CANCEL, 1), two)
	l.ended(one.GetTask())
	require.Empty(t, gone, "the other one still waits for it")
	require.EqualValues(t, 1, gets.Load())
	l.want(stopped(two, v1.StopReason_CANCEL, 1))
	l.ended(two.GetTask())
	select {
	case <-gone:
	case <-time.After(60 * time.Second):
		t.Fatal("nobody waits for the transfer, and it goes on")
	}
}

func TestTheAgentIsKilledWhileItFetches(t *testing.T) {
	var gets atomic.Int32
	gate := make(chan struct{})
	server := rows(t, gate, &gets)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.Hosts = []string{"127.0.0.1"}
	first := process(t, cfg)
	marks := filepath.Join(t.TempDir(), "marks")
	o := training(t, "echo ran >> "+marks+"; test -s $MIND_DATA_DIR/0/rows.jsonl", server.URL+"/rows.jsonl")
	l.want(o)
	require.Eventually(t, func() bool { return gets.Load() == 1 }, 30*time.Second, time.Millisecond)
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	close(gate)
	process(t, cfg)
	end := l.ended(o.GetTask())
	require.Zero(t, end.GetExitCode(), end.GetErrorMessage())
	text, err := os.ReadFile(marks)
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(text))
}

func TestWhatATaskUsesIsKeptAcrossARestart(t *testing.T) {
	big := strings.Repeat("x", 700)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+r.URL.Path+`"`)
		_, _ = w.Write([]byte(big))
	}))
	defer server.Close()
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.Hosts, cfg.Data.CacheBytes = []string{"127.0.0.1"}, 1000
	stop := inProcess(t, cfg)
	gate := filepath.Join(t.TempDir(), "gate")
	user := training(t, "while [ ! -e "+gate+" ]; do sleep 0.01; done; test -s $MIND_DATA_DIR/0/a", server.URL+"/a")
	l.want(user)
	l.running(user.GetTask())
	stop()
	inProcess(t, cfg)
	l.hello(1)
	other := training(t, "exit 0", server.URL+"/b")
	l.want(user, other)
	end := l.ended(other.GetTask())
	require.Equal(t, v1.ErrorType_DATA_FETCH, end.GetErrorType(), "it evicted what a task uses")
	require.Contains(t, end.GetErrorMessage(), "does not fit")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Zero(t, l.ended(user.GetTask()).GetExitCode())
	again := training(t, "exit 0", server.URL+"/b")
	l.want(again)
	require.Zero(t, l.ended(again.GetTask()).GetExitCode(), "what nobody uses makes way")
}

func TestDataService(t *testing.T) {
	var gets atomic.Int32
	server := rows(t, openGate(), &gets)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Data.Hosts, cfg.Data.CacheBytes, cfg.HTTPAddr = []string{"127.0.0.1"}, 1<<20, "127.0.0.1:0"
	inProcess(t, cfg)
	o := training(t, "exit 0", server.URL+"/rows.jsonl?sig=hunter2")
	l.want(o)
	l.ended(o.GetTask())
	conn, err := grpc.NewClient(l.hello(0).GetGrpcAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	agent := v1.NewTaskServiceClient(conn)

	found, err := agent.ProbeData(ctx, &v1.ProbeDataRequest{TenantId: "acme", Sources: []*v1.DataSource{
		{Path: server.URL + "/rows.jsonl?sig=hunter2"}, {Path: "/none"}, {Path: "/"}, {Path: server.URL + "/none"},
	}})
	require.NoError(t, err)
	checks := found.GetSources()
	require.Len(t, checks, 4)
	require.True(t, checks[0].GetValid())
	require.True(t, checks[0].GetCached())
	require.EqualValues(t, 1, checks[0].GetFiles())
	require.False(t, checks[1].GetValid())
	require.Contains(t, checks[1].GetMessage(), "data_roots of the agent")
	require.False(t, checks[2].GetValid())
	require.Contains(t, checks[3].GetMessage(), "404")
	many := &v1.ProbeDataRequest{Sources: make([]*v1.DataSource, 101)}
	_, err = agent.ProbeData(ctx, many)
	require.Error(t, err)

	kept, err := agent.ReadDataCache(ctx, &v1.ReadDataCacheRequest{TenantId: "acme"})
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, kept.GetCache().GetCapacityBytes())
	require.EqualValues(t, 12, kept.GetCache().GetUsedBytes())
	require.Len(t, kept.GetCache().GetEntries(), 1)
	require.Equal(t, server.URL+"/rows.jsonl?...", kept.GetCache().GetEntries()[0].GetPath())
	kept, err = agent.ReadDataCache(ctx, &v1.ReadDataCacheRequest{TenantId: "evil"})
	require.NoError(t, err)
	require.Empty(t, kept.GetCache().GetEntries())
	_, err = agent.ReadDataCache(ctx, &v1.ReadDataCacheRequest{})
	require.Error(t, err)

	_, metrics := get(t, "http://"+l.hello(0).GetHttpAddr()+"/metrics")
	for _, want := range []string{"mind_data_cache_used_bytes 12", fmt.Sprintf("mind_data_cache_capacity_bytes %g", float64(1<<20)), "mind_data_cache_misses_total 1", "mind_data_cache_fetched_bytes_total 12"} {
		require.Contains(t, metrics, want)
	}
}
