package coordinator

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/datatokens"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// keep adds a path of a tenant to the node's cache.
func (a *scriptedAgent) keep(tenant, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil {
		a.kept = map[string][]string{}
	}
	if !slices.Contains(a.kept[tenant], path) {
		a.kept[tenant] = append(a.kept[tenant], path)
	}
}

// ProbeData finds all paths except those that begin with /none.
func (a *scriptedAgent) ProbeData(_ context.Context, req *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probed = append(a.probed, req)
	out := &v1.ProbeDataResponse{}
	for _, source := range req.GetSources() {
		check := &v1.DataSourceCheck{Path: source.GetPath(), Valid: true, Cached: slices.Contains(a.kept[req.GetTenantId()], source.GetPath())}
		if strings.HasPrefix(source.GetPath(), "/none") {
			check.Valid, check.Message = false, "node n1 has no such file"
		}
		out.Sources = append(out.Sources, check)
	}
	return out, nil
}

func (a *scriptedAgent) ReadDataCache(_ context.Context, req *v1.ReadDataCacheRequest) (*v1.ReadDataCacheResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := &v1.NodeDataCache{CapacityBytes: 100, UsedBytes: int64(len(a.kept[req.GetTenantId()]))}
	for _, path := range a.kept[req.GetTenantId()] {
		out.Entries = append(out.Entries, &v1.DataCacheEntry{Path: path})
	}
	return &v1.ReadDataCacheResponse{Cache: out}, nil
}

// lockedBuffer is a buffer that several coordinators write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Tokens that came with a submit at a follower reach the task under another leader, and are in no log and, unsealed, on
// no disk.
func TestCluster_credentialsReachTheTaskSealed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var logs lockedBuffer
		c := startClusterOnFiles(t, 3, func(config *Config) {
			config.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		const drive, atlas = "drive-hunter2-token", "atlas-hunter2-token"
		with := func(token string) context.Context {
			return c.ctx("t1", "", status.KeyDriveToken, token, status.KeyAtlasToken, atlas)
		}
		job := func(sources ...string) *v1.SubmitJobRequest {
			req := trainingJob()
			req.ResourceConfig.GpuCount = 1
			req.DataConfig.Sources = nil
			for _, s := range sources {
				req.DataConfig.Sources = append(req.DataConfig.Sources, &v1.DataSource{Path: s})
			}
			return req
		}
		at := c.follower()
		sent, err := c.jobs(at).SubmitJob(with(drive), job("scaidrive://acme/set/"))
		require.NoError(t, err)
		batch, err := c.jobs(at).SubmitJobs(with(drive), &v1.SubmitJobsRequest{Jobs: []*v1.SubmitJobRequest{job("/plain"), job("/plain", "scaiatlas://acme/x", "scaidrive://acme/y")}})
		require.NoError(t, err)
		plain, both := batch.GetResults()[0].GetJob().GetJobId(), batch.GetResults()[1].GetJob().GetJobId()
		c.lead(at)
		agent := c.agent("n1", 8)
		for _, id := range []string{sent.GetJobId(), plain, both} {
			c.await(at, id, func(*v1.Job) bool { return agent.has(id) != nil })
		}
		require.Equal(t, drive, agent.has(sent.GetJobId()).GetCredentials().GetScaidriveToken())
		require.Empty(t, agent.has(sent.GetJobId()).GetCredentials().GetScaiatlasToken(), "the job has no use for it")
		require.Nil(t, agent.has(plain).GetCredentials())
		require.Equal(t, atlas, agent.has(both).GetCredentials().GetScaiatlasToken())
		require.Equal(t, drive, agent.has(both).GetCredentials().GetScaidriveToken())

		// A retry brings new tokens.
		agent.end(sent.GetJobId(), 1)
		c.awaitStatus(at, sent.GetJobId(), v1.JobStatus_FAILED)
		_, err = c.jobs(at).RetryJob(with("newer-hunter2-token"), &v1.RetryJobRequest{JobId: sent.GetJobId()})
		require.NoError(t, err)
		c.await(at, sent.GetJobId(), func(j *v1.Job) bool {
			return j.GetAttempt() == 2 && agent.has(sent.GetJobId()).GetCredentials().GetScaidriveToken() == "newer-hunter2-token"
		})
		_, err = c.jobs(at).RetryJob(c.ctx("evil", "", status.KeyDriveToken, "x"), &v1.RetryJobRequest{JobId: sent.GetJobId()})
		requireCode(t, codes.NotFound, err)

		// An evaluation fetches its model with the tokens, and so does a training. A checkpoint is on the nodes.
		evaluate := func(e *v1.EvaluationConfig) string {
			e.Benchmarks = []*v1.Benchmark{{Name: "mmlu"}}
			sent, err := v1.NewEvaluationServiceClient(c.members[at].conn).SubmitEvaluation(with(drive), &v1.SubmitEvaluationRequest{EvaluationConfig: e, ResourceConfig: &v1.ResourceConfig{}})
			require.NoError(t, err)
			id, _ := ident.ParseEvaluation(sent.GetEvaluationId())
			c.await(at, id.String(), func(*v1.Job) bool { return agent.has(id.String()) != nil })
			return id.String()
		}
		require.Equal(t, drive, agent.has(evaluate(&v1.EvaluationConfig{ModelUri: "scaidrive://acme/m/"})).GetCredentials().GetScaidriveToken())
		require.Nil(t, agent.has(evaluate(&v1.EvaluationConfig{ModelUri: "hf://acme/m"})).GetCredentials())
		withModel := job("/plain")
		withModel.TrainingConfig.BaseModel = &v1.BaseModel{ModelId: "m-17", Source: "scaiatlas"}
		trained, err := c.jobs(at).SubmitJob(with(drive), withModel)
		require.NoError(t, err)
		c.await(at, trained.GetJobId(), func(*v1.Job) bool { return agent.has(trained.GetJobId()) != nil })
		require.Equal(t, atlas, agent.has(trained.GetJobId()).GetCredentials().GetScaiatlasToken())
		require.Empty(t, agent.has(trained.GetJobId()).GetCredentials().GetScaidriveToken())

		_, err = c.jobs(at).SubmitJob(with(strings.Repeat("x", datatokens.MaxToken+1)), job("scaidrive://acme/set/"))
		requireCode(t, codes.InvalidArgument, err)
		require.NotContains(t, logs.String(), "hunter2")
		for _, m := range c.members {
			require.NoError(t, filepath.WalkDir(m.config.DataDir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return nil // Raft may remove files meanwhile
				}
				text, _ := os.ReadFile(path)
				require.NotContains(t, string(text), "hunter2", path)
				return nil
			}))
		}
	})
}

func TestCluster_tokensWithoutAKeyAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, func(config *Config) { config.APISecret = "" })
		req := trainingJob()
		req.DataConfig.Sources[0].Path = "scaidrive://acme/set/"
		_, err := c.jobs("c1").SubmitJob(c.ctx("acme", "", status.KeyDriveToken, "x"), req)
		requireCode(t, codes.FailedPrecondition, err)
		require.ErrorContains(t, err, "credentials_key")
		_, err = c.jobs("c1").SubmitJob(c.ctx("acme", ""), req)
		require.NoError(t, err, "without tokens there is nothing to keep")
	})
}

func TestCluster_data(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		data := func(id string) v1.DataServiceClient { return v1.NewDataServiceClient(c.members[id].conn) }
		sources := func(paths ...string) *v1.ValidateDataRequest {
			req := &v1.ValidateDataRequest{}
			for _, p := range paths {
				req.Sources = append(req.Sources, &v1.DataSource{Path: p})
			}
			return req
		}
		_, err := data(at).ValidateData(c.ctx("acme", ""), sources("/data/x"))
		requireCode(t, codes.FailedPrecondition, err)
		require.ErrorContains(t, err, "no node is ready")
		none, err := data(at).GetDataCache(c.ctx("acme", ""), &v1.GetDataCacheRequest{})
		require.NoError(t, err)
		require.Empty(t, none.GetNodes())

		agent := c.agent("n1", 1)
		agent.keep("acme", "/data/x")
		found, err := data(at).ValidateData(c.ctx("acme", "", status.KeyDriveToken, "d", status.KeyAtlasToken, "a"), sources("/data/x", "/none"))
		require.NoError(t, err)
		require.False(t, found.GetValid())
		require.Equal(t, "n1", found.GetNodeId())
		require.True(t, found.GetSources()[0].GetValid())
		require.True(t, found.GetSources()[0].GetCached())
		require.Equal(t, "node n1 has no such file", found.GetSources()[1].GetMessage())
		agent.mu.Lock()
		probe := agent.probed[0]
		agent.mu.Unlock()
		require.Equal(t, "acme", probe.GetTenantId())
		require.Equal(t, "d", probe.GetCredentials().GetScaidriveToken())
		require.Equal(t, "a", probe.GetCredentials().GetScaiatlasToken())
		found, err = data(at).ValidateData(c.ctx("evil", ""), sources("/data/x"))
		require.NoError(t, err)
		require.True(t, found.GetValid())
		require.False(t, found.GetSources()[0].GetCached(), "another tenant has it")

		named := sources("/data/x")
		named.NodeId = "n9"
		_, err = data(at).ValidateData(c.ctx("acme", ""), named)
		requireCode(t, codes.NotFound, err)

		kept, err := data(at).GetDataCache(c.ctx("acme", ""), &v1.GetDataCacheRequest{})
		require.NoError(t, err)
		require.Len(t, kept.GetNodes(), 1)
		require.Equal(t, "/data/x", kept.GetNodes()[0].GetEntries()[0].GetPath())
		require.EqualValues(t, 1, kept.GetNodes()[0].GetUsedBytes())
		kept, err = data(at).GetDataCache(c.ctx("evil", ""), &v1.GetDataCacheRequest{})
		require.NoError(t, err)
		require.Empty(t, kept.GetNodes()[0].GetEntries())
		require.Zero(t, kept.GetNodes()[0].GetUsedBytes())

		agent.close()
		kept, err = data(at).GetDataCache(c.ctx("acme", ""), &v1.GetDataCacheRequest{})
		require.NoError(t, err)
		require.NotEmpty(t, kept.GetNodes()[0].GetError())
		_, err = data(at).ValidateData(c.ctx("acme", ""), sources("/data/x"))
		require.Error(t, err)
	})
}
