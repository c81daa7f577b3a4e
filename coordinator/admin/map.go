package admin

import (
	"context"
	"math"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// The characters of GetClusterMapResponse.
const (
	gpuFree      = '.'
	gpuMine      = 'm'
	gpuOthers    = 'o'
	gpuUnhealthy = 'x'
	unknownUse   = '-'
)

// GetClusterMap shows all GPUs in a compact form.
func (s *Service) GetClusterMap(ctx context.Context, _ *v1.GetClusterMapRequest) (*v1.GetClusterMapResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	out, active, c := &v1.GetClusterMapResponse{}, s.activity(ctx, ""), call.Of(ctx)
	policy := v.Policy()
	levels := domains.Levels(policy.Levels)
	for n := range v.Nodes() {
		out.NodeIds, out.States = append(out.NodeIds, n.ID), append(out.States, n.State)
		domain := ""
		for _, l := range levels {
			if domain = n.Labels[l.Label]; domain != "" {
				break
			}
		}
		out.Domains = append(out.Domains, domain)
		out.GpuTypes = append(out.GpuTypes, gpuTypesOf(n))
		held, used := gpusOf(v, n, c, active)
		out.Gpus, out.Utilization = append(out.Gpus, held), append(out.Utilization, used)
	}
	return out, nil
}

func gpuTypesOf(n *work.Node) string {
	var types []string
	for i := range n.GPUs {
		if !slices.Contains(types, n.GPUs[i].Type) {
			types = append(types, n.GPUs[i].Type)
		}
	}
	return strings.Join(types, "|")
}

// gpusOf returns two characters for each GPU of a node: whose it is, and how much of the time it works.
func gpusOf(v *fsm.View, n *work.Node, c *call.Call, active map[string]*v1.NodeActivity) (held, used string) {
	mine, others := uint64(0), uint64(0)
	for lease := range v.LeasesOn(n.ID) {
		if j, ok := v.Job(lease.Job); ok && j.Tenant == c.Tenant {
			mine |= lease.GPUs
		} else {
			others |= lease.GPUs
		}
	}
	h, u := make([]byte, len(n.GPUs)), make([]byte, len(n.GPUs))
	for i := range n.GPUs {
		g := &n.GPUs[i]
		bit := uint64(1) << g.Index
		switch {
		case g.Health != v1.GpuHealth_HEALTHY:
			h[i] = gpuUnhealthy
		case mine&bit != 0:
			h[i] = gpuMine
		case others&bit != 0:
			h[i] = gpuOthers
		default:
			h[i] = gpuFree
		}
		u[i] = unknownUse
		if !showsUse(c, mine&bit != 0, others&bit != 0) {
			continue
		}
		if sample := sampleOf(active, n.ID, int32(g.Index)); sample != nil && sample.UtilizationPercent != nil {
			u[i] = '0' + byte(min(9, math.Floor(float64(max(0, *sample.UtilizationPercent))/10)))
		}
	}
	return string(h), string(u)
}
