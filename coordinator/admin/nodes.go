package admin

import (
	"context"
	"math/bits"
	"slices"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// ListNodes lists all nodes.
func (s *Service) ListNodes(ctx context.Context, _ *v1.ListNodesRequest) (*v1.ListNodesResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out, active := &v1.ListNodesResponse{}, s.activity(ctx, "")
	for n := range v.Nodes() {
		out.Nodes = append(out.Nodes, nodeView(v, n, call.Of(ctx), active))
	}
	return out, nil
}

// GetNode shows one node.
func (s *Service) GetNode(ctx context.Context, req *v1.GetNodeRequest) (*v1.GetNodeResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	n, ok := v.Node(req.GetNodeId())
	if !ok {
		return nil, call.NotFound("node", req.GetNodeId())
	}
	return &v1.GetNodeResponse{Node: nodeView(v, n, call.Of(ctx), s.activity(ctx, n.ID))}, nil
}

// nodeView returns a node as a tenant may see it: only the tenant's own tasks are listed and counted. Operators also
// see the number of tasks of all tenants, because they must know how many tasks a drain waits for, but not their
// owners. Utilization is shown to a tenant only for GPUs that only its own jobs hold.
func nodeView(v *fsm.View, n *work.Node, c *call.Call, active map[string]*v1.NodeActivity) *v1.Node {
	use := v.Use(n.ID)
	out := &v1.Node{
		NodeId: n.ID, State: n.State, Reason: words.Of(n.Reason), Hostname: n.Hostname, CpuCount: int32(n.CPUs), MemoryMb: int32(n.MemMB),
		Labels: n.Labels, AgentVersion: n.AgentVersion, BootId: n.BootID, RegisteredAt: call.Time(n.RegisteredAt),
		RosterCurrent: n.RosterSince != 0 && n.RosterAcked >= v.RosterVersion(),
	}
	if n.State == v1.NodeState_UNFIT {
		out.Reason = words.Of(n.Unfit)
	}
	policy := v.Policy()
	for _, l := range domains.Levels(policy.Levels) {
		if name := n.Labels[l.Label]; name != "" {
			out.Domains = append(out.Domains, &v1.NodeDomain{Level: l.Name, Name: name})
		}
	}
	out.LastSeenAt = active[n.ID].GetLastSeenAt()
	if n.UnreachableSince != 0 {
		out.UnreachableSince = call.Time(n.UnreachableSince)
	}
	if n.Drain != nil {
		out.DrainDeadline = call.Time(n.Drain.Deadline)
	}
	holders, others := map[int]string{}, uint64(0)
	for lease := range v.LeasesOn(n.ID) {
		if j, ok := v.Job(lease.Job); !ok || j.Tenant != c.Tenant {
			others |= lease.GPUs
			continue
		}
		out.Tasks++
		id := lease.Job.String()
		if !slices.Contains(out.JobIds, id) {
			out.JobIds = append(out.JobIds, id)
		}
		for set := lease.GPUs; set != 0; set &= set - 1 {
			holders[bits.TrailingZeros64(set)] = id
		}
	}
	if c.Operator {
		out.Tasks = int32(use.Tasks)
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Health == v1.GpuHealth_HEALTHY && (use.Exclusive|use.Shared)&(1<<g.Index) == 0 {
			out.GpusFree++
		}
		shown := &v1.Gpu{
			Uuid: g.UUID, Index: int32(g.Index), Model: g.Model, GpuType: g.Type, MemoryMb: int32(g.MemMB), PciBusId: g.PCI,
			NumaNode: int32(g.NUMA), NvlinkPeers: call.GPUs(g.NVLink), Health: g.Health, HealthReason: words.Of(g.HealthReason),
			Simulated: g.Simulated, JobId: holders[int(g.Index)], MigProfile: g.MIG, MigInstance: g.Instance,
		}
		if showsUse(c, shown.JobId != "", others&(1<<g.Index) != 0) {
			show(shown, sampleOf(active, n.ID, shown.Index))
		}
		out.Gpus = append(out.Gpus, shown)
	}
	return out
}

// showsUse reports whether a caller sees how much a GPU works: operators do, and a tenant whose jobs alone hold it.
func showsUse(c *call.Call, mine, others bool) bool { return c.Operator || mine && !others }

// sampleOf returns the newest sample of a GPU; nil: unknown.
func sampleOf(active map[string]*v1.NodeActivity, node string, index int32) *v1.GpuSample {
	for _, g := range active[node].GetGpus() {
		if g.GetIndex() == index {
			return g
		}
	}
	return nil
}

// show adds a sample to the state's data of a GPU.
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
