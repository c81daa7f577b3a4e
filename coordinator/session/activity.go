package session

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
)

// The data in heartbeats beside renewals (utilization of GPUs, and the contact itself) stays in the leader's memory:
// recording it would add a log entry for each heartbeat of each node. Other replicas ask the leader on demand.

const (
	// samplesFor is how long a sample of a GPU is shown. Agents read their GPUs every 10 s.
	samplesFor = 30 * time.Second
	// askActivity limits how long a replica waits for the leader's answer; it answers its caller in any case.
	askActivity = time.Second
)

// samples are the samples of one node's GPUs.
type samples struct {
	at   time.Time
	gpus []*v1.GpuSample
}

// sampled keeps the newest samples of a session.
type sampled struct{ newest atomic.Pointer[samples] }

func (s *sampled) put(gpus []*v1.GpuSample) {
	if len(gpus) > 0 && len(gpus) <= work.MaxGPUs {
		s.newest.Store(&samples{time.Now(), gpus})
	}
}

// get returns the newest samples; nil if they are too old.
func (s *sampled) get() []*v1.GpuSample {
	if newest := s.newest.Load(); newest != nil && time.Since(newest.at) < samplesFor {
		return newest.gpus
	}
	return nil
}

// Activity has the leader's data about the nodes in session, by node.
type Activity map[string]*v1.NodeActivity

// GetNodeActivity is served by the leader.
func (s *Service) GetNodeActivity(_ context.Context, req *v1.GetNodeActivityRequest) (*v1.GetNodeActivityResponse, error) {
	table := s.current()
	if table == nil {
		return nil, call.NotSent("%s is not the leader", s.config.ID)
	}
	out := &v1.GetNodeActivityResponse{}
	for _, a := range table.activity(req.GetNodeId()) {
		out.Nodes = append(out.Nodes, a)
	}
	return out, nil
}

// Activity returns the leader's data about one node, or about all. It is empty if the leader cannot be asked, or if the
// caller asked for stale: an unknown activity is not an error.
func (s *Service) Activity(ctx context.Context, node string) Activity {
	if table := s.current(); table != nil {
		return table.activity(node)
	}
	id, addr := s.replica.Leader()
	if call.Of(ctx).Stale || addr == "" || id == s.config.ID {
		return nil
	}
	conn, err := s.replica.Link(addr)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askActivity)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(s.replica.AsReplica(ctx), status.KeyForwarded, "1")
	reply, err := v1.NewOperatorServiceClient(conn).GetNodeActivity(ctx, &v1.GetNodeActivityRequest{NodeId: node})
	if err != nil {
		return nil
	}
	found := Activity{}
	for _, a := range reply.GetNodes() {
		found[a.GetNodeId()] = a
	}
	return found
}
