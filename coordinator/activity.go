package coordinator

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

// What agents tell in heartbeats beside renewals (what their GPUs do, and that they are there) stays in the leader's memory: to
// write it down would be an entry of the log for each heartbeat of each node. Other replicas ask the leader when somebody asks them.

const (
	// samplesFor is how long what a GPU did is told. Agents read their GPUs every 10 s.
	samplesFor = 30 * time.Second
	// askActivity bounds how long a replica waits for the leader's answer, without which it answers all the same.
	askActivity = time.Second
)

// samples are those of the GPUs of one node.
type samples struct {
	at   time.Time
	gpus []*v1.GpuSample
}

// sampled keeps the newest samples of a session.
type sampled struct{ newest atomic.Pointer[samples] }

func (s *sampled) put(gpus []*v1.GpuSample) {
	if len(gpus) > 0 && len(gpus) <= fsm.MaxGPUs {
		s.newest.Store(&samples{time.Now(), gpus})
	}
}

// get returns nothing when the newest are too old.
func (s *sampled) get() []*v1.GpuSample {
	if newest := s.newest.Load(); newest != nil && time.Since(newest.at) < samplesFor {
		return newest.gpus
	}
	return nil
}

// activity is what the leader knows of the nodes in session, by node.
type activity map[string]*v1.NodeActivity

// of a GPU; nil: nothing is known.
func (a activity) gpu(node string, index int32) *v1.GpuSample {
	for _, g := range a[node].GetGpus() {
		if g.GetIndex() == index {
			return g
		}
	}
	return nil
}

// activity of one node, or of all; false: this coordinator does not lead.
func (t *sessionTable) activity(node string) (activity, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.reign == nil {
		return nil, false
	}
	found := activity{}
	for id, s := range t.byNode {
		if node == "" || node == id {
			found[id] = &v1.NodeActivity{NodeId: id, LastSeenAt: timestamp(later(t.opened, s.heardAt()).UnixNano()), Gpus: s.samples.get()}
		}
	}
	return found, true
}

// GetNodeActivity is served by the leader.
func (s *server) GetNodeActivity(_ context.Context, req *v1.GetNodeActivityRequest) (*v1.GetNodeActivityResponse, error) {
	found, leading := s.sessions.activity(req.GetNodeId())
	if !leading {
		return nil, call.NotSent("%s does not lead (any more)", s.config.ID)
	}
	out := &v1.GetNodeActivityResponse{}
	for _, a := range found {
		out.Nodes = append(out.Nodes, a)
	}
	return out, nil
}

// activity of one node, or of all, as the leader knows it. It is empty when the leader cannot be asked, or need not be because the
// caller wants what this replica has: then nobody knows, which is no reason to fail.
func (s *server) activity(ctx context.Context, node string) activity {
	if found, leading := s.sessions.activity(node); leading {
		return found
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
	md := metadata.Pairs(status.KeyForwarded, "1")
	if s.config.APISecret != "" {
		md.Set(status.KeySecret, s.config.APISecret)
	}
	reply, err := v1.NewOperatorServiceClient(conn).GetNodeActivity(metadata.NewOutgoingContext(ctx, md), &v1.GetNodeActivityRequest{NodeId: node})
	if err != nil {
		return nil
	}
	found := activity{}
	for _, a := range reply.GetNodes() {
		found[a.GetNodeId()] = a
	}
	return found
}

// show writes a sample beside what the state knows of a GPU.
func show(g *v1.Gpu, sample *v1.GpuSample) {
	if sample == nil {
		return
	}
	if sample.UtilizationPercent != nil {
		g.Utilization = proto.Float64(float64(min(max(0, *sample.UtilizationPercent), 100)) / 100)
	}
	if sample.MemoryUsedMb != nil {
		g.MemoryUsedMb = proto.Int32(max(0, *sample.MemoryUsedMb))
	}
}
