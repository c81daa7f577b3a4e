package session

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/coordinator/liveness"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// OrderBook makes the orders of one session. Each Orders lists every task that the node should have, and its orders
// about checkpoints. The data for launching a task (its spec) is included only the first time in a session, so that a
// node with many tasks does not get all of it again whenever one of them changes.
type OrderBook struct {
	node string
	told map[taskKey]told
	sent bool
	// enabledAt is the last value of enabled_at that the session sent.
	enabledAt uint64
	// checkpoints are the last orders about checkpoints that the session sent.
	checkpoints []checkpointOrder
	// unseal adds the credentials of a job to a specification; nil: no job has any.
	unseal   func(*work.Job, *v1.TaskSpec)
	launcher Launcher
}

// taskKey identifies a task of a node.
type taskKey struct {
	job  ident.Job
	rank uint16
}

// told has the values that the session last sent about a task.
type told struct {
	token uint64
	stop  v1.StopReason_Value
	// grace may get shorter while the task is being stopped.
	grace int64
}

// NewOrderBook returns the OrderBook of a new session of a node. unseal adds the credentials of a job to a
// specification, and may be nil.
func NewOrderBook(node string, launcher Launcher, unseal func(*work.Job, *v1.TaskSpec)) *OrderBook {
	return &OrderBook{node: node, told: map[taskKey]told{}, launcher: launcher, unseal: unseal}
}

// Launcher returns the parts of a launcher that a task needs; nil for a job with a command.
type Launcher func(*fsm.View, *v1.SubmitJobRequest) *v1.Launcher

// Update returns the orders of a view, or nil if they have not changed.
func (b *OrderBook) Update(v *fsm.View) *v1.Orders {
	orders := &v1.Orders{Index: v.Index()}
	if n, ok := v.Node(b.node); ok {
		orders.EnabledAt = n.EnabledAt
	}
	next := make(map[taskKey]told, len(b.told))
	var saved []checkpointOrder
	orders.Checkpoints, saved = checkpointOrders(v, b.node)
	changed := !b.sent || b.enabledAt != orders.GetEnabledAt() || !slices.Equal(b.checkpoints, saved)
	for lease := range v.LeasesOn(b.node) {
		j, ok := v.Job(lease.Job)
		if !ok || int(lease.Rank) >= len(j.Tasks) {
			continue
		}
		// A lease outlives its task until the whole attempt has ended. The node has nothing to do for it.
		if j.Tasks[lease.Rank].State == v1.TaskState_ENDED {
			continue
		}
		key := taskKey{job: lease.Job, rank: lease.Rank}
		now := told{token: lease.Token, stop: j.Stop, grace: j.StopGrace}
		before, known := b.told[key]
		known = known && before.token == now.token
		changed = changed || !known || before != now
		next[key] = now
		order := &v1.TaskOrder{
			Task: &v1.TaskRef{JobId: lease.Job.String(), Attempt: int32(lease.Attempt), Rank: int32(lease.Rank), Token: lease.Token},
			Stop: j.Stop,
		}
		switch {
		case j.Stop != v1.StopReason_UNSPECIFIED:
			order.GracePeriodSeconds = int32(time.Duration(j.StopGrace).Round(time.Second) / time.Second)
		case !known:
			order.Spec = b.spec(v, j, lease)
			if b.unseal != nil {
				b.unseal(j, order.Spec)
			}
		}
		orders.Tasks = append(orders.Tasks, order)
	}
	for key, before := range b.told {
		if _, still := next[key]; !still && !endedByItself(v, key, before) {
			changed = true
		}
	}
	b.told, b.sent, b.enabledAt, b.checkpoints = next, true, orders.GetEnabledAt(), saved
	if !changed {
		return nil
	}
	return orders
}

// endedByItself reports whether a task left the orders because the node reported its end. If the state ended the task
// without the node, because the node was forgotten, the node needs an order to stop it.
func endedByItself(v *fsm.View, key taskKey, before told) bool {
	j, ok := v.Job(key.job)
	if !ok || j.Token != before.token || int(key.rank) >= len(j.Tasks) {
		return false
	}
	t := &j.Tasks[key.rank]
	return t.State == v1.TaskState_ENDED && t.ErrorType != v1.ErrorType_NODE_LOST
}

// spec returns the data for launching a task.
func (b *OrderBook) spec(v *fsm.View, j *work.Job, lease *work.Lease) *v1.TaskSpec {
	request, err := jobspec.Decode(j)
	if err != nil {
		// A request that can no longer be read cannot be launched. The agent refuses a job without a command, with a
		// message.
		request = &v1.SubmitJobRequest{Name: fmt.Sprintf("unreadable: %v", err)}
	}
	spec := &v1.TaskSpec{
		Job: request, TenantId: j.Tenant, UserId: j.User, Gpus: call.GPUs(lease.GPUs), GpuFraction: 1,
		MasterPort: masterPort(j, lease.Token), Replaceable: liveness.Replaceable(j), Replacement: j.Replacement(),
		LeaseMs: leaseTime(j).Milliseconds(),
	}
	if e := spec.GetJob().GetEvaluationConfig(); e != nil {
		setModel(spec, v, j, e)
	}
	spec.Launcher = b.launcher(v, spec.Job)
	spec.GatesJson = gateAnswers(v, j.ID)
	if lease.FractionMilli > 0 {
		spec.GpuFraction = float64(lease.FractionMilli) / 1000
	}
	for i := range j.Tasks {
		peer := &v1.TaskPeer{NodeId: j.Tasks[i].Node, Host: hostOf(v, j.Tasks[i].Node)}
		if n, ok := v.Node(peer.GetNodeId()); ok {
			peer.GrpcAddr = n.GRPCAddr
		}
		spec.Peers = append(spec.Peers, peer)
	}
	spec.ResumePoints = resumePoints(v, j, lease)
	if len(spec.ResumePoints) > 0 {
		spec.ResumeFrom = spec.ResumePoints[0].Path
	}
	if j.MaxRuntime > 0 && j.StartedAt > 0 {
		spec.Deadline = timestamp(j.StartedAt + j.MaxRuntime)
	}
	return spec
}

// setModel sets the model that an evaluation scores. If the checkpoint is no longer known, the model stays empty, and
// the agent reports that.
func setModel(spec *v1.TaskSpec, v *fsm.View, j *work.Job, e *v1.EvaluationConfig) {
	if e.GetCheckpointId() == "" {
		spec.ModelPath = strings.TrimPrefix(e.GetModelUri(), "file://")
		return
	}
	id, _ := ident.ParseCheckpoint(e.GetCheckpointId())
	if c, ok := v.Checkpoint(id); ok && c.Tenant == j.Tenant && !c.Expired() {
		spec.ModelPath, spec.ModelCheckpoint = c.Path, resumePoint(v, c)
	}
}

// leaseTime returns how long a task may live without a renewal: until it may be replaced, or until its job gives it up.
func leaseTime(j *work.Job) time.Duration {
	if liveness.Replaceable(j) {
		return liveness.LostAfter(j)
	}
	return time.Duration(j.GiveUpAfter)
}

// hostOf returns the address of a node for ranks on other nodes: the host of its agent.
func hostOf(v *fsm.View, node string) string {
	n, ok := v.Node(node)
	if !ok {
		return node
	}
	if host, _, err := net.SplitHostPort(n.GRPCAddr); err == nil && host != "" {
		return host
	}
	return n.Hostname
}

// Ports for the rendezvous of an attempt. They are below those that kernels assign, and above those of the components of
// a cluster on one machine (package devcluster/ports).
const (
	firstPort = 15_000
	portRange = 15_000
)

// masterPort returns a port that is the same for all ranks of an attempt, and differs between concurrent attempts as
// far as possible, because entries and places within them are consecutive.
func masterPort(j *work.Job, token uint64) int32 {
	return int32(firstPort + (token*31+uint64(j.ID)*17)%portRange)
}

func timestamp(unixNanos int64) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, unixNanos))
}
