package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/virtual/network"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/gossip"
	"github.com/mindcoordinator/mind/pki"
)

// patience bounds the waits for a node to be declared lost, which takes 10 s of silence.
const patience = time.Minute

// gossiping is a cluster whose coordinators gossip, with their logs.
type gossiping struct {
	*cluster
	logs  *logbook
	seeds []string
	view  atomic.Pointer[fsm.View] // of the replica that applied an entry last
}

// logbook collects log records.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logbook) has(parts ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}

// startGossiping starts three coordinators, of which the first gossiping3 gossip.
func startGossiping(t *testing.T, gossiping3 int) *gossiping {
	t.Helper()
	// Memberlist does not wait for its probes when it ends, and at the end of a bubble time stops.
	t.Cleanup(func() { time.Sleep(time.Minute) })
	g := &gossiping{logs: &logbook{}}
	for i := range gossiping3 {
		g.seeds = append(g.seeds, at(fmt.Sprintf("10.0.0.%d", i+1), portGossip))
	}
	i := 0
	g.cluster = startCluster(t, 3, func(config *Config) {
		if i < gossiping3 {
			config.GossipAddr, config.GossipJoin = g.seeds[i], g.seeds
		}
		i++
		config.Observe = func(v *fsm.View, _ []event.Event) { g.view.Store(v) }
		config.Logger = slog.New(slog.NewTextHandler(g.logs, nil))
	})
	return g
}

// awaitNode is cluster.awaitNode with a longer wait.
func (g *gossiping) awaitNode(id string, want v1.NodeState_Value) *v1.Node {
	g.t.Helper()
	return g.awaitNodeFor(patience, id, want)
}

// machine is an agent that gossips, and can be cut off on all links at once.
type machine struct {
	*scriptedAgent
	gossips *network.Host
}

func (g *gossiping) machine(id string, gpus int) *machine {
	g.t.Helper()
	host := g.net.Host(fmt.Sprintf("10.0.3.%d", g.agents+1))
	carrier, err := host.Gossip(portGossip)
	require.NoError(g.t, err)
	pool, err := gossip.Start(gossip.Config{
		Name: id, Role: pki.RoleAgent, Bind: host.Addr(portGossip), Join: g.seeds, Transport: carrier, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(g.t, err)
	g.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), longstop)
		defer cancel()
		_ = pool.Leave(ctx) // there may be no other member
		host.Kill(false)
	})
	return &machine{scriptedAgent: g.agent(id, gpus), gossips: host}
}

// vanish cuts the machine off from all others. Its tasks continue.
func (m *machine) vanish() {
	m.isolate()
	m.gossips.Kill(true)
}

// awaitRoster waits until the state has recorded that each of the machines keeps a roster with all of them.
func (g *gossiping) awaitRoster(machines ...*machine) {
	g.t.Helper()
	g.until("the roster is kept by all", func() bool {
		v := g.view.Load()
		for _, m := range machines {
			keeper, ok := v.Node(m.hello.GetNodeId())
			for _, other := range machines {
				n, known := v.Node(other.hello.GetNodeId())
				if !ok || !known || n.RosterSince == 0 || n.RosterSince > keeper.RosterAcked {
					return false
				}
			}
		}
		return true
	})
}

func (g *gossiping) until(what string, is func() bool) {
	g.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); waitABit() {
		if is() {
			return
		}
	}
	g.t.Fatalf("never: %s", what)
}

// eventually polls until a job satisfies a condition, as long as it may take to declare a node lost.
func (g *gossiping) eventually(id string, want func(*v1.Job) bool) *v1.Job {
	g.t.Helper()
	return g.awaitFor(patience, g.running()[0], id, want)
}

// trainingOn returns a condition: an attempt of the job runs on one node.
func trainingOn(attempt int32, node string) func(*v1.Job) bool {
	return func(j *v1.Job) bool {
		return j.GetStatus() == v1.JobStatus_TRAINING && j.GetAttempt() == attempt && len(j.GetNodes()) == 1 && j.GetNodes()[0] == node
	}
}

// replaceableJob returns a job whose task may be replaced after ten seconds of silence.
func replaceableJob(gpus int32) *v1.SubmitJobRequest {
	req := sleeper(gpus, 0)
	req.SchedulingConfig = &v1.SchedulingConfig{LostAfterSeconds: 10}
	return req
}

// notRestartable returns a job whose task is never replaced.
func notRestartable(gpus int32) *v1.SubmitJobRequest {
	req := sleeper(gpus, 0)
	req.SchedulingConfig = &v1.SchedulingConfig{Restartable: proto.Bool(false)}
	return req
}

// on restricts a job to one node.
func on(node string, req *v1.SubmitJobRequest) *v1.SubmitJobRequest {
	req.ResourceConfig.NodeSelector = map[string]string{"name": node}
	return req
}

func (g *gossiping) counter(name string) func() bool {
	return func() bool {
		for _, id := range g.running() {
			_, body := g.page(id, "/metrics")
			for line := range strings.Lines(body) {
				if value, ok := strings.CutPrefix(line, name+" "); ok && strings.TrimSpace(value) != "0" {
					return true
				}
			}
		}
		return false
	}
}

func TestLost_aJobIsReplacedUnlessItIsNotRestartable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := startGossiping(t, 3)
		n1 := g.machine("n1", 2)
		at := g.leader()
		job, alone := g.submit(at, replaceableJob(1)), g.submit(at, on("n1", notRestartable(1)))
		g.awaitStatus(at, job, v1.JobStatus_TRAINING)
		g.awaitStatus(at, alone, v1.JobStatus_TRAINING)
		n2 := g.machine("n2", 2)
		g.awaitRoster(n1, n2)
		spec := n1.has(job)
		require.True(t, spec.GetReplaceable())
		require.EqualValues(t, 10_000, spec.GetLeaseMs())
		require.False(t, n1.has(alone).GetReplaceable())
		require.EqualValues(t, 24*60*60*1000, n1.has(alone).GetLeaseMs())
		gone := time.Now()
		n1.vanish()
		g.awaitNode("n1", v1.NodeState_UNREACHABLE)

		j := g.eventually(job, trainingOn(2, "n2"))
		t.Logf("replaced %s after the node went", time.Since(gone).Round(time.Millisecond))
		require.EqualValues(t, 1, j.GetRetries().GetNodeLost())
		require.Len(t, j.GetPastAttempts(), 1)
		past := j.GetPastAttempts()[0]
		require.Equal(t, v1.ErrorType_NODE_LOST, past.GetErrorType())
		require.Equal(t, []string{"n1"}, past.GetNodes())
		require.Equal(t, "n1", past.GetFailedNode())
		require.True(t, n2.has(job).GetReplacement(), "what may still be alive is said to the node that takes over")
		require.True(t, g.counter("mind_nodes_lost_total")())
		left := g.eventually(alone, func(j *v1.Job) bool { return strings.Contains(j.GetReason(), "is not replaced") })
		require.Equal(t, v1.JobStatus_TRAINING, left.GetStatus(), "nothing replaces it")
		require.EqualValues(t, 1, left.GetAttempt())

		// The node comes back with one task that was replaced and one that was not.
		n1.mu.Lock()
		for _, task := range n1.tasks {
			if task.ref.GetJobId() == job {
				n1.report(&v1.Report{Task: task.ref, Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{Path: "/late", Step: 9, ManifestDigest: "sha256:0"}}})
			}
		}
		n1.mu.Unlock()
		n1.heal()
		g.awaitNode("n1", v1.NodeState_READY)
		g.until("the stale task is stopped", func() bool {
			n1.mu.Lock()
			defer n1.mu.Unlock()
			stopped := 0
			for _, task := range n1.tasks {
				if task.replaced {
					require.Equal(t, job, task.ref.GetJobId())
					stopped++
				}
			}
			return stopped == 1 && len(n1.unacked) == 0
		})
		g.until("its checkpoint is counted as stale", g.counter("mind_fencing_rejections_total"))
		list, err := g.jobs(g.leader()).ListCheckpoints(g.ctx("t1", ""), &v1.ListCheckpointsRequest{JobId: job})
		require.NoError(t, err)
		require.Empty(t, list.GetCheckpoints())
		g.eventually(job, trainingOn(2, "n2"))
		n1.end(alone, 5)
		j = g.eventually(alone, func(j *v1.Job) bool { return j.GetStatus() == v1.JobStatus_FAILED })
		require.EqualValues(t, 5, j.GetExitCode(), "what was not replaced ends as it ended")
	})
}

func TestLost_aMinorityIsNotEnough(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := startGossiping(t, 1) // The others have no gossip, and abstain.
		n1 := g.machine("n1", 1)
		at := g.leader()
		job := g.submit(at, replaceableJob(1))
		g.awaitStatus(at, job, v1.JobStatus_TRAINING)
		n2 := g.machine("n2", 1)
		g.awaitRoster(n1, n2)
		n1.vanish()
		g.until("the leader says what is missing", func() bool { return g.logs.has("not declared lost", "2 of 3 votes needed, 1: ", "never heard of it") })
		j := g.eventually(job, func(*v1.Job) bool { return true })
		require.True(t, trainingOn(1, "n1")(j), j)
		require.Contains(t, j.GetReason(), "n1 is unreachable")
		explained, err := g.jobs(g.leader()).ExplainJob(g.ctx("t1", ""), &v1.ExplainJobRequest{JobId: job})
		require.NoError(t, err)
		require.Contains(t, strings.Join(explained.GetDetails(), "\n"), "Once the node was silent for 10s, a majority of the coordinators calls it dead and a replacement node exists, the job is restarted on other nodes")
	})
}

// The owner of a job on a dead node sees what the job waits for, and can end the wait by vouching.
func TestCancel_onADeadNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := startGossiping(t, 3)
		n1 := g.machine("n1", 2)
		at := g.leader()
		fixed, moving := g.submit(at, on("n1", notRestartable(1))), g.submit(at, on("n1", replaceableJob(1)))
		g.awaitStatus(at, fixed, v1.JobStatus_TRAINING)
		g.awaitStatus(at, moving, v1.JobStatus_TRAINING)
		n2 := g.machine("n2", 1)
		g.awaitRoster(n1, n2)
		cancel := func(id string, vouch bool) (*v1.Job, error) {
			resp, err := g.jobs(g.leader()).CancelJob(g.ctx("t1", ""), &v1.CancelJobRequest{JobId: id, Reason: "enough", Vouch: vouch})
			return resp.GetJob(), err
		}
		_, err := cancel(fixed, true)
		requireCode(t, codes.FailedPrecondition, err)
		require.ErrorContains(t, err, "cancel it without vouching")

		n1.vanish()
		g.awaitNode("n1", v1.NodeState_UNREACHABLE)
		j, err := cancel(fixed, false)
		require.NoError(t, err)
		require.Equal(t, v1.JobStatus_TRAINING, j.GetStatus(), "its task may be alive")
		require.Contains(t, j.GetReason(), "Then the job is CANCELLED; or when the node is back, or is forgotten, or at once if you vouch")
		j, err = cancel(moving, false)
		require.NoError(t, err)
		require.Contains(t, j.GetReason(), "the job is CANCELLED")
		g.eventually(moving, func(j *v1.Job) bool { return j.GetStatus() == v1.JobStatus_CANCELLED })
		j, err = cancel(fixed, true)
		require.NoError(t, err)
		require.Equal(t, v1.JobStatus_CANCELLED, j.GetStatus())

		// The node comes back, and stops the task.
		n1.heal()
		g.awaitNode("n1", v1.NodeState_READY)
		g.until("both tasks are stopped", func() bool {
			n1.mu.Lock()
			defer n1.mu.Unlock()
			for _, task := range n1.tasks {
				if !task.replaced {
					return false
				}
			}
			return true
		})
	})
}

func TestLost_theLeaderGoesInTheSameInstant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := startGossiping(t, 3)
		n1 := g.machine("n1", 1)
		at := g.leader()
		job := g.submit(at, replaceableJob(1))
		g.awaitStatus(at, job, v1.JobStatus_TRAINING)
		n2 := g.machine("n2", 1)
		g.awaitRoster(n1, n2)
		leader := g.leader()
		gone := time.Now()
		n1.vanish()
		g.kill(leader)
		g.eventually(job, trainingOn(2, "n2"))
		t.Logf("replaced %s after the node and the leader went", time.Since(gone).Round(time.Millisecond))
	})
}

func TestLost_notWhileOthersRenewForIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := startGossiping(t, 3)
		n1, n2, n3 := g.machine("n1", 1), g.machine("n2", 1), g.machine("n3", 4)
		at := g.leader()
		first, second := g.submit(at, on("n1", replaceableJob(1))), g.submit(at, on("n2", replaceableJob(1)))
		g.awaitStatus(at, first, v1.JobStatus_TRAINING)
		g.awaitStatus(at, second, v1.JobStatus_TRAINING)
		g.awaitRoster(n1, n2, n3)
		ctx, cancel := context.WithCancel(t.Context())
		var relays sync.WaitGroup
		relays.Go(func() {
			pace := time.NewTicker(200 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-pace.C:
					n3.relay(n1.renewal())
				case <-ctx.Done():
					return
				}
			}
		})
		defer relays.Wait()
		defer cancel()
		n1.vanish()
		n2.vanish()
		g.awaitNode("n1", v1.NodeState_UNREACHABLE)
		g.until("relayed renewals are acknowledged", func() bool {
			n3.mu.Lock()
			defer n3.mu.Unlock()
			return n3.relayed["n1"] > 0
		})
		g.awaitNode("n2", v1.NodeState_LOST)
		require.Equal(t, v1.NodeState_UNREACHABLE, g.awaitNode("n1", v1.NodeState_UNREACHABLE).GetState(), "it renews, and stays unreachable")
		j := g.get(g.leader(), first)
		require.True(t, trainingOn(1, "n1")(j), j)
		require.Contains(t, j.GetReason(), "it renews its leases through its peers); the task there runs on as long as its lease is renewed, and then ends by its own deadline. Once")
		require.True(t, g.counter(`mind_renewals_total{path="relayed"}`)())
		cancel()
		relays.Wait()
		g.awaitNode("n1", v1.NodeState_LOST)
	})
}

func TestLost_aLateJoinerTakesOverNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := startGossiping(t, 3)
		n1 := g.machine("n1", 1)
		at := g.leader()
		job := g.submit(at, replaceableJob(1))
		g.awaitStatus(at, job, v1.JobStatus_TRAINING)
		n2 := g.machine("n2", 1)
		filler := g.submit(at, on("n2", sleeper(1, 0)))
		g.awaitStatus(at, filler, v1.JobStatus_TRAINING)
		g.awaitRoster(n1, n2)
		n1.vanish()
		g.awaitNode("n1", v1.NodeState_UNREACHABLE)
		n3 := g.machine("n3", 1)
		// n2 may run the replacement, but is full. n3 has room, but was never on n1's roster.
		j := g.eventually(job, func(j *v1.Job) bool { return j.GetStatus() == v1.JobStatus_QUEUED })
		require.Contains(t, j.GetReason(), "attempt 1 may still be alive on n1")
		explained, err := g.jobs(g.leader()).ExplainJob(g.ctx("t1", ""), &v1.ExplainJobRequest{JobId: job})
		require.NoError(t, err)
		require.Contains(t, strings.Join(explained.GetDetails(), "\n"), "1 of the nodes that are ready may run the next attempt meanwhile")
		other := g.submit(g.leader(), sleeper(1, 0))
		g.eventually(other, trainingOn(1, "n3"))
		n3.end(other, 0)
		g.eventually(other, func(j *v1.Job) bool { return j.GetStatus() == v1.JobStatus_COMPLETED })
		n2.end(filler, 0)
		g.eventually(job, trainingOn(2, "n2"))
		require.Nil(t, n3.has(job))
	})
}
