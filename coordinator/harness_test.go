package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/chaos/virtual/disk"
	"github.com/mindcoordinator/mind/chaos/virtual/network"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode/stream"
)

// longstop bounds every wait of the tests. An operation that takes longer has failed.
const longstop = 30 * time.Second

// unhurried are the timers of clusters in real time: a machine that stalls for seconds must not make a call fail or a
// stop incomplete.
var unhurried = Timers{LeaderWait: longstop / 3, Shutdown: longstop / 3}

// cluster has real coordinators: in memory (net), or on the sockets and the disk of this machine.
type cluster struct {
	t       testing.TB
	members map[string]*member
	ids     []string
	net     *network.Network
	users   *network.Host // the host of the test's calls
	agents  int           // number of agents so far
	onFiles bool          // in memory, but with files on disk
	sockets *porttest.Sockets
	web     *http.Client
}

type member struct {
	config Config
	conn   *grpc.ClientConn
	// peer is a connection with the certificate of another coordinator; nil: without TLS, where conn serves as well.
	peer  *grpc.ClientConn
	stop  context.CancelFunc
	ended chan error
	// For a member in memory: its address, its disk, which it keeps over restarts, and the host of its running process.
	ip   string
	disk *disk.Disk
	host *network.Host
}

// startCluster starts n coordinators in memory. change may adapt their configuration.
func startCluster(t testing.TB, n int, change func(*Config)) *cluster {
	t.Helper()
	c := newCluster(t)
	c.found(n, change)
	return c
}

// startClusterOnFiles is startCluster with logs and snapshots in data directories.
func startClusterOnFiles(t testing.TB, n int, change func(*Config)) *cluster {
	t.Helper()
	c := newCluster(t)
	c.onFiles = true
	c.found(n, change)
	return c
}

// found starts n coordinators, and waits for their leader.
func (c *cluster) found(n int, change func(*Config)) {
	c.t.Helper()
	c.place(n, change)
	for _, id := range c.ids {
		c.start(id)
	}
	c.leader()
}

func (c *cluster) start(id string) {
	c.t.Helper()
	m := c.members[id]
	ctx, cancel := context.WithCancel(context.Background())
	m.stop, m.ended = cancel, make(chan error, 1)
	config := m.config
	config.Registry = nil
	if c.net != nil {
		c.settle(m, &config)
	}
	go func() { m.ended <- Run(ctx, config) }()
	if m.conn == nil {
		m.conn = c.dial(m.config.GRPCAddr, nil)
	}
}

// kill ends a coordinator and waits until it is gone.
func (c *cluster) kill(id string) {
	m := c.members[id]
	if m.stop == nil {
		return
	}
	m.stop()
	require.NoError(c.t, <-m.ended)
	m.stop = nil
	if m.host != nil {
		m.host.Kill(false)
	}
}

func (c *cluster) running() []string {
	var out []string
	for _, id := range c.ids {
		if c.members[id].stop != nil {
			out = append(out, id)
		}
	}
	return out
}

// leader waits until all running members agree on a leader that accepts writes.
func (c *cluster) leader() string {
	c.t.Helper()
	said := map[string]string{}
	for end := time.Now().Add(longstop); time.Now().Before(end); waitABit() {
		seen := map[string]bool{}
		for _, id := range c.running() {
			resp, err := c.operators(id).ListPeers(c.ctx("", ""), &v1.ListPeersRequest{Local: true}, grpc.WaitForReady(true))
			leader := ""
			for _, p := range resp.GetPeers() {
				if p.GetLeader() {
					leader = p.GetId()
				}
			}
			seen[leader] = true
			said[id] = fmt.Sprintf("leader %q, %v", leader, err)
		}
		if len(seen) == 1 && !seen[""] {
			for id := range seen {
				_, err := c.operators(id).ReadIndex(c.ctx("", ""), &v1.ReadIndexRequest{})
				if err == nil {
					return id
				}
				said[id] = fmt.Sprintf("it leads, %v", err)
			}
		}
	}
	c.t.Fatalf("no leader: %v", said)
	return ""
}

// waitABit is the pause between two polls of a test.
func waitABit() { time.Sleep(20 * time.Millisecond) }

// lead makes a coordinator the leader.
func (c *cluster) lead(id string) {
	c.t.Helper()
	from := c.leader()
	if from == id {
		return
	}
	_, err := c.operators(from).TransferLeadership(c.ctx("", ""), &v1.TransferLeadershipRequest{To: id})
	require.NoError(c.t, err)
	require.Equal(c.t, id, c.leader())
}

func (c *cluster) follower() string {
	leader := c.leader()
	for _, id := range c.running() {
		if id != leader {
			return id
		}
	}
	c.t.Fatal("no follower")
	return ""
}

// ctx makes the context of a call for a tenant, with more metadata as pairs.
func (c *cluster) ctx(tenant, key string, more ...string) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), longstop)
	c.t.Cleanup(cancel)
	md := metadata.Pairs(append([]string{status.KeySecret, "secret"}, more...)...)
	if tenant != "" {
		md.Set(status.KeyTenant, tenant)
	}
	if key != "" {
		md.Set(status.KeyIdempotency, key)
	}
	return metadata.NewOutgoingContext(ctx, md)
}

func (c *cluster) jobs(id string) v1.JobServiceClient {
	return v1.NewJobServiceClient(c.members[id].conn)
}

func (c *cluster) nodes(id string) v1.ClusterServiceClient {
	return v1.NewClusterServiceClient(c.members[id].conn)
}

func (c *cluster) operators(id string) v1.OperatorServiceClient {
	return v1.NewOperatorServiceClient(cmp.Or(c.members[id].peer, c.members[id].conn))
}

// trainingJob returns a job that fine-tunes a model on eight GPUs.
func trainingJob() *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name: "support-lora-v3",
		TrainingConfig: &v1.TrainingConfig{
			TrainingType: v1.TrainingType_LORA,
			BaseModel:    &v1.BaseModel{ModelId: "mistral-7b"},
			Framework:    &v1.Framework{Type: v1.FrameworkType_HF_TRAINER},
		},
		DataConfig:     &v1.DataConfig{Sources: []*v1.DataSource{{Path: "/data/train.jsonl"}}},
		ResourceConfig: &v1.ResourceConfig{GpuCount: 8},
	}
}

// sleeper returns a job that runs until the test ends it.
func sleeper(gpus, nodes int32) *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name: "sleeper", CommandConfig: &v1.CommandConfig{Argv: []string{"sleep", "1000"}, Cwd: "/"},
		ResourceConfig: &v1.ResourceConfig{GpuCount: gpus, NodeCount: nodes},
	}
}

// patient lets a job wait for capacity that no node has.
func patient(req *v1.SubmitJobRequest) *v1.SubmitJobRequest {
	if req.SchedulingConfig == nil {
		req.SchedulingConfig = &v1.SchedulingConfig{}
	}
	req.SchedulingConfig.AllowPendingCapacity = true
	return req
}

func (c *cluster) submit(at string, req *v1.SubmitJobRequest) string {
	c.t.Helper()
	resp, err := c.jobs(at).SubmitJob(c.ctx("t1", ""), req)
	require.NoError(c.t, err)
	return resp.GetJobId()
}

func (c *cluster) get(at, id string) *v1.Job {
	c.t.Helper()
	return c.getFor("t1", at, id)
}

func (c *cluster) getFor(tenant, at, id string) *v1.Job {
	c.t.Helper()
	resp, err := c.jobs(at).GetJob(c.ctx(tenant, ""), &v1.GetJobRequest{JobId: id})
	require.NoError(c.t, err)
	return resp.GetJob()
}

// await polls until a job satisfies a condition.
func (c *cluster) await(at, id string, want func(*v1.Job) bool) *v1.Job {
	c.t.Helper()
	return c.awaitFor(longstop, at, id, want)
}

func (c *cluster) awaitFor(patience time.Duration, at, id string, want func(*v1.Job) bool) *v1.Job {
	c.t.Helper()
	var last *v1.Job
	for end := time.Now().Add(patience); time.Now().Before(end); waitABit() {
		if last = c.get(at, id); want(last) {
			return last
		}
	}
	c.t.Fatalf("job never came to what was awaited; last seen: %v", last)
	return nil
}

func (c *cluster) awaitStatus(at, id string, want v1.JobStatus_Value) *v1.Job {
	c.t.Helper()
	return c.await(at, id, func(j *v1.Job) bool { return j.GetStatus() == want })
}

// eventually polls until a condition holds.
func (c *cluster) eventually(why string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(longstop); !is(); waitABit() {
		require.True(c.t, time.Now().Before(end), why)
	}
}

// succeeds retries an operation until it succeeds.
func (c *cluster) succeeds(what string, do func() error) {
	c.t.Helper()
	for end := time.Now().Add(longstop); ; waitABit() {
		err := do()
		if err == nil {
			return
		}
		require.True(c.t, time.Now().Before(end), "%s: %v", what, err)
	}
}

// page reads a page that a coordinator serves over HTTP.
func (c *cluster) page(id, path string) (code int, body string) {
	c.t.Helper()
	resp, err := c.web.Get("http://" + c.members[id].config.HTTPAddr + path)
	require.NoError(c.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, resp.Body.Close())
	return resp.StatusCode, string(text)
}

// requireCode checks the code of a call's error. about may describe the call.
func requireCode(t testing.TB, want codes.Code, err error, about ...string) {
	t.Helper()
	require.Error(t, err, about)
	require.Equal(t, want.String(), grpcstatus.Code(err).String(), "%s %v", about, err)
}

// replicaOf returns a replica of a state that is in no cluster.
func replicaOf(t *testing.T, machine *fsm.Machine) *replica.Replica {
	others := links.New(stream.TCP{}.Dial, nil)
	t.Cleanup(others.Close)
	return replica.New(replica.Config{ID: "c1", Life: t.Context(), End: func() {}, Log: slog.New(slog.DiscardHandler)}, machine, others)
}

// indexIn returns the state index in an answer's metadata; 0: none.
func indexIn(text string) uint64 {
	index, _ := strconv.ParseUint(text, 10, 64)
	return index
}
