package admin

import (
	"context"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/metrics"
)

// GetCluster summarizes the cluster. Jobs are counted for the caller's tenant only; the counts of GPUs and nodes, and the
// mean utilization, are visible to all.
func (s *Service) GetCluster(ctx context.Context, _ *v1.GetClusterRequest) (*v1.GetClusterResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &v1.GetClusterResponse{Jobs: map[string]int32{}}
	types := map[string]*v1.GpuTypeSummary{}
	active, worked := s.activity(ctx, ""), 0.0
	for n := range v.Nodes() {
		out.NodesTotal++
		ready := n.State == v1.NodeState_READY
		if ready {
			out.NodesReady++
		}
		use := v.Use(n.ID)
		for i := range n.GPUs {
			g := &n.GPUs[i]
			t := types[g.Type]
			if t == nil {
				t = &v1.GpuTypeSummary{GpuType: g.Type}
				types[g.Type] = t
				out.GpuTypes = append(out.GpuTypes, t)
			}
			out.GpusTotal++
			t.Total++
			healthy, leased := g.Health == v1.GpuHealth_HEALTHY, (use.Exclusive|use.Shared)&(1<<g.Index) != 0
			if healthy {
				out.GpusHealthy++
				if sample := sampleOf(active, n.ID, int32(g.Index)); sample != nil && sample.UtilizationPercent != nil {
					out.GpusMeasured++
					worked += float64(*sample.UtilizationPercent) / 100
				}
			}
			if leased {
				out.GpusAllocated++
			}
			if ready && healthy && !leased {
				t.Free++
			}
		}
	}
	slices.SortFunc(out.GpuTypes, func(a, b *v1.GpuTypeSummary) int { return strings.Compare(a.GpuType, b.GpuType) })
	if out.GpusHealthy > 0 {
		out.GpuAllocation = float64(out.GpusAllocated) / float64(out.GpusHealthy)
	}
	out.GpuUtilization = worked / float64(out.GpusMeasured) // NaN (unknown) if none was measured
	tenant := call.Of(ctx).Tenant
	for state, n := range metrics.JobCounts(v.CountsOf(tenant), v.HeldOf(tenant)) {
		if n > 0 {
			out.Jobs[state] = int32(n)
		}
	}
	out.Leader, _ = s.replica.Raft().Leader()
	liveness := s.liveness()
	for _, p := range s.replica.Raft().Peers() {
		out.Coordinators = append(out.Coordinators, &v1.CoordinatorStatus{Id: p.ID, Leader: p.Leader, Voter: p.Voter, Liveness: liveness(p.ID)})
	}
	return out, nil
}
