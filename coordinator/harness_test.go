package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/links"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/raftnode/stream"
)

// longstop bounds every wait of the tests: what takes longer is broken.
const longstop = 30 * time.Second

// unhurried are the timers of a test that is about none of them. A machine that stands still for seconds, or elects another
// leader meanwhile, must not make a node unreachable, a call fail or a stop incomplete. They are shorter than longstop, so
// that who asks again and again has several answers.
var unhurried = Timers{
	AgentHeartbeat: 100 * time.Millisecond, UnreachableAfter: longstop / 3, LeaderWait: longstop / 3, Shutdown: longstop / 3,
}

// cluster is three real coordinators on loopback.
type cluster struct {
	t       testing.TB
	members map[string]*member
	ids     []string
	// submits counts the keys that were given out.
	submits atomic.Int64
}

type member struct {
	config Config
	conn   *grpc.ClientConn
	// peer is a connection as another coordinator makes it; nil: certificates are not asked for, and conn is as good.
	peer  *grpc.ClientConn
	stop  context.CancelFunc
	ended chan error
}

// startCluster runs n coordinators; change may adapt their configuration.
func startCluster(t testing.TB, n int, change func(*Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, members: map[string]*member{}}
	ports := freePorts(t, 3*n)
	var peers []Peer
	for i := range n {
		id := fmt.Sprintf("c%d", i+1)
		c.ids = append(c.ids, id)
		peers = append(peers, Peer{ID: id, GRPCAddr: ports[3*i], HTTPAddr: ports[3*i+1], RaftAddr: ports[3*i+2]})
	}
	for i, id := range c.ids {
		config := Config{
			ID: id, DataDir: t.TempDir(), GRPCAddr: peers[i].GRPCAddr, HTTPAddr: peers[i].HTTPAddr, RaftAddr: peers[i].RaftAddr,
			Peers: peers, APISecret: "secret", Logger: slog.New(slog.DiscardHandler), Timers: unhurried,
		}
		if change != nil {
			change(&config)
		}
		c.members[id] = &member{config: config}
		c.start(id)
	}
	t.Cleanup(func() {
		var all sync.WaitGroup
		for _, id := range c.ids {
			all.Go(func() { c.kill(id) })
		}
		all.Wait()
	})
	c.leader()
	return c
}

// freePorts returns addresses that nobody listens on. They lie below the ports that the kernel gives to outgoing
// connections: a coordinator that is started again must find its own not taken by one of these.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	var out []string
	for end := time.Now().Add(longstop); len(out) < n; {
		require.True(t, time.Now().Before(end), "no port is free")
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(10_000)))
		if err != nil {
			continue
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out
}

func (c *cluster) start(id string) {
	c.t.Helper()
	m := c.members[id]
	ctx, cancel := context.WithCancel(context.Background())
	m.stop, m.ended = cancel, make(chan error, 1)
	config := m.config
	config.Registry = nil
	go func() { m.ended <- Run(ctx, config) }()
	if m.conn == nil {
		conn, err := grpc.NewClient("passthrough:///"+m.config.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithUnaryInterceptor(c.again),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
		require.NoError(c.t, err)
		m.conn = conn
		c.t.Cleanup(func() { _ = conn.Close() })
	}
}

// again makes a call once more whose outcome is unknown: a slow machine may elect another leader in the middle of any write.
// As a gateway does, it gives a call that has no idempotency key one of its own, so that nothing is done twice.
func (c *cluster) again(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md[status.KeyTenant]) == 1 && len(md[status.KeyIdempotency])+len(md[status.KeyForwarded]) == 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, status.KeyIdempotency, fmt.Sprintf("%sharness-%d", status.AutoKeyPrefix, c.submits.Add(1)))
	}
	var trailer metadata.MD
	opts = append(opts, grpc.Trailer(&trailer))
	for giveUp := time.Now().Add(longstop); ; waitABit() {
		err := invoke(ctx, method, req, reply, conn, opts...)
		if grpcstatus.Code(err) != codes.Unavailable || trailerOf(trailer, status.KeyOutcome) != status.Unknown || time.Now().After(giveUp) {
			return err
		}
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

// leader waits until all that run agree on a leader that takes writes.
func (c *cluster) leader() string {
	c.t.Helper()
	for end := time.Now().Add(longstop); time.Now().Before(end); {
		seen := map[string]bool{}
		for _, id := range c.running() {
			resp, err := c.operators(id).ListPeers(c.ctx("", ""), &v1.ListPeersRequest{Local: true}, grpc.WaitForReady(true))
			leader := ""
			if err == nil {
				for _, p := range resp.GetPeers() {
					if p.GetLeader() {
						leader = p.GetId()
					}
				}
			}
			seen[leader] = true
		}
		if len(seen) == 1 && !seen[""] {
			for id := range seen {
				if _, err := c.operators(id).ReadIndex(c.ctx("", ""), &v1.ReadIndexRequest{}); err == nil {
					return id
				}
			}
		}
		waitABit()
	}
	c.t.Fatal("no leader")
	return ""
}

// waitABit lets others work while a test asks again and again.
func waitABit() { time.Sleep(5 * time.Millisecond) }

// lead makes a coordinator the leader. It asks again when an election that nobody asked for comes between.
func (c *cluster) lead(id string) {
	c.t.Helper()
	for end := time.Now().Add(longstop); time.Now().Before(end); waitABit() {
		at := c.leader()
		if at == id {
			return
		}
		_, _ = c.operators(at).TransferLeadership(c.ctx("", ""), &v1.TransferLeadershipRequest{To: id})
	}
	c.t.Fatalf("%s never led", id)
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

// sleeper is a job that runs until somebody ends it.
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

func sleeper(gpus, nodes int32) *v1.SubmitJobRequest {
	return &v1.SubmitJobRequest{
		Name: "sleeper", CommandConfig: &v1.CommandConfig{Argv: []string{"sleep", "1000"}, Cwd: "/"},
		ResourceConfig: &v1.ResourceConfig{GpuCount: gpus, NodeCount: nodes},
	}
}

// patient makes a job wait for what no node has today.
func patient(req *v1.SubmitJobRequest) *v1.SubmitJobRequest {
	if req.SchedulingConfig == nil {
		req.SchedulingConfig = &v1.SchedulingConfig{}
	}
	req.SchedulingConfig.AllowPendingCapacity = true
	return req
}

func (c *cluster) submit(at string, req *v1.SubmitJobRequest) string {
	c.t.Helper()
	// A slow machine may elect another leader at any time; the key makes it one job.
	key := fmt.Sprintf("harness-%d", c.submits.Add(1))
	for giveUp := time.Now().Add(longstop); ; {
		resp, err := c.jobs(at).SubmitJob(c.ctx("t1", key), req)
		if grpcstatus.Code(err) == codes.Unavailable && time.Now().Before(giveUp) {
			continue
		}
		require.NoError(c.t, err)
		return resp.GetJobId()
	}
}

func (c *cluster) get(at, id string) *v1.Job {
	c.t.Helper()
	resp, err := c.jobs(at).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: id})
	require.NoError(c.t, err)
	return resp.GetJob()
}

// await asks until the job is as wanted.
func (c *cluster) await(at, id string, want func(*v1.Job) bool) *v1.Job {
	c.t.Helper()
	var last *v1.Job
	for end := time.Now().Add(longstop); time.Now().Before(end); waitABit() {
		resp, err := c.jobs(at).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: id})
		if err == nil {
			if last = resp.GetJob(); want(last) {
				return last
			}
		}
	}
	c.t.Fatalf("job never came to what was awaited; last seen: %v", last)
	return nil
}

func (c *cluster) awaitStatus(at, id string, want v1.JobStatus_Value) *v1.Job {
	c.t.Helper()
	return c.await(at, id, func(j *v1.Job) bool { return j.GetStatus() == want })
}

func requireCode(t testing.TB, want codes.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), grpcstatus.Code(err).String(), err)
}

// replicaOf is a replica of a state that is in no cluster.
func replicaOf(t *testing.T, machine *fsm.Machine) *replica.Replica {
	others := links.New(stream.TCP{}.Dial, nil)
	t.Cleanup(others.Close)
	return replica.New(replica.Config{ID: "c1", Life: t.Context(), End: func() {}, Log: slog.New(slog.DiscardHandler)}, machine, others)
}

// indexIn is the state index that an answer's metadata tells; 0: none.
func indexIn(text string) uint64 {
	index, _ := strconv.ParseUint(text, 10, 64)
	return index
}
