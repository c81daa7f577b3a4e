package admission

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

// racks returns nodes of 8 GPUs; sizes are the numbers of nodes in each rack.
func racks(sizes ...int) *capacity.Capacity {
	c := capacity.New()
	c.SetLevels("example.com/tray,example.com/rack")
	for r, size := range sizes {
		for i := range size {
			n := &work.Node{ID: fmt.Sprintf("r%d-%d", r, i), CPUs: 64, MemMB: 1 << 20, Labels: map[string]string{"example.com/rack": fmt.Sprint("r", r)}}
			for g := range 8 {
				n.GPUs = append(n.GPUs, work.GPU{Index: uint8(g), Type: "H100", MemMB: 80_000, NVLink: 255})
			}
			c.Put(n)
		}
	}
	return c
}

func TestParse_readsDomains(t *testing.T) {
	const rack = "example.com/rack"
	for name, tt := range map[string]struct {
		resources *v1.ResourceConfig
		want      work.Shape
		wrong     string
	}{
		"the innermost level with labels": {&v1.ResourceConfig{GpuCount: 16, NodeCount: 2, Topology: "same_domain"}, work.Shape{Nodes: 2, GPUs: 8, Between: domains.Same, Level: rack}, ""},
		"beside the node":                 {&v1.ResourceConfig{GpuCount: 16, NodeCount: 2, Topology: "spread, nvlink"}, work.Shape{Nodes: 2, GPUs: 8, Topology: work.TopologyNVLink, Between: domains.Spread, Level: rack}, ""},
		"a level by name":                 {&v1.ResourceConfig{GpuCount: 16, NodeCount: 2, Topology: "prefer", TopologyLevel: "tray"}, work.Shape{Nodes: 2, GPUs: 8, Between: domains.Prefer, Level: "example.com/tray"}, ""},
		"segments":                        {&v1.ResourceConfig{GpuCount: 32, NodeCount: 4, Topology: "same_domain", TopologySegment: 2}, work.Shape{Nodes: 4, GPUs: 8, Between: domains.Same, Level: rack, Segment: 2}, ""},
		"one node":                        {&v1.ResourceConfig{GpuCount: 8, Topology: "same_domain"}, work.Shape{Nodes: 1, GPUs: 8}, ""},
		"left out":                        {&v1.ResourceConfig{GpuCount: 8, ExcludeNodes: []string{"b", "a,b"}, Placement: "spread"}, work.Shape{Nodes: 1, GPUs: 8, Exclude: "a,b", Loose: true}, ""},

		"two of one kind":         {&v1.ResourceConfig{GpuCount: 8, Topology: "prefer,spread"}, work.Shape{}, "resource_config.topology"},
		"no level of that name":   {&v1.ResourceConfig{GpuCount: 8, Topology: "prefer", TopologyLevel: "leaf"}, work.Shape{}, "the levels are: tray, rack"},
		"a level for nothing":     {&v1.ResourceConfig{GpuCount: 8, TopologyLevel: "rack"}, work.Shape{}, "resource_config.topology_level"},
		"segments for nothing":    {&v1.ResourceConfig{GpuCount: 16, NodeCount: 2, TopologySegment: 2}, work.Shape{}, "only the topology same_domain has"},
		"unequal segments":        {&v1.ResourceConfig{GpuCount: 24, NodeCount: 3, Topology: "same_domain", TopologySegment: 2}, work.Shape{}, "a multiple of it"},
		"an unknown placement":    {&v1.ResourceConfig{GpuCount: 8, Placement: "dense"}, work.Shape{}, "pack, spread"},
		"an empty name":           {&v1.ResourceConfig{GpuCount: 8, ExcludeNodes: []string{""}}, work.Shape{}, "resource_config.exclude_nodes"},
		"an empty name in a list": {&v1.ResourceConfig{GpuCount: 8, ExcludeNodes: []string{"a,,b"}}, work.Shape{}, "resource_config.exclude_nodes"},
		"a pattern that is none":  {&v1.ResourceConfig{GpuCount: 8, ExcludeNodes: []string{"a["}}, work.Shape{}, "resource_config.exclude_nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			req := commandJob()
			req.ResourceConfig = tt.resources
			job, err := Parse(req, racks(4))
			if tt.wrong != "" {
				require.ErrorContains(t, err, tt.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, job.Shape)
		})
	}
}

func TestNeverFits_knowsDomains(t *testing.T) {
	for name, tt := range map[string]struct {
		resources *v1.ResourceConfig
		want      string
	}{
		"one rack holds it":        {&v1.ResourceConfig{GpuCount: 24, NodeCount: 3, Topology: "same_domain"}, ""},
		"none does":                {&v1.ResourceConfig{GpuCount: 32, NodeCount: 4, Topology: "same_domain"}, "resource_config.topology: needs 4 nodes that can hold 8 GPUs each in one rack; the most in one rack are 3 (r1)"},
		"segments":                 {&v1.ResourceConfig{GpuCount: 32, NodeCount: 4, Topology: "same_domain", TopologySegment: 2}, ""},
		"segments with remainders": {&v1.ResourceConfig{GpuCount: 48, NodeCount: 6, Topology: "same_domain", TopologySegment: 2}, "resource_config.topology_segment: needs 3 segments of 2 nodes that can hold 8 GPUs each, every one in one rack; there is room for 2"},
		"prefer never waits":       {&v1.ResourceConfig{GpuCount: 48, NodeCount: 6, Topology: "prefer"}, ""},
		"a level without labels":   {&v1.ResourceConfig{GpuCount: 16, NodeCount: 2, Topology: "same_domain", TopologyLevel: "tray"}, "resource_config.topology_level: no node that can hold 8 GPUs has the label example.com/tray, so none is in any tray"},
		"nodes that are left out":  {&v1.ResourceConfig{GpuCount: 40, NodeCount: 5, ExcludeNodes: []string{"r1-*"}}, "resource_config.exclude_nodes: needs 5 nodes that can hold 8 GPUs; without the excluded nodes there are 3"},
		"all left out":             {&v1.ResourceConfig{GpuCount: 8, ExcludeNodes: []string{"*"}}, "resource_config.exclude_nodes: needs 1 node that can hold 8 GPUs; without the excluded nodes there are 0"},
	} {
		t.Run(name, func(t *testing.T) {
			req := commandJob()
			req.ResourceConfig = tt.resources
			inv := racks(2, 3, 1)
			job, err := Parse(req, inv)
			require.NoError(t, err)
			if wrong := neverFits(tt.resources, job.Shape, inv); tt.want != "" {
				require.EqualError(t, wrong, tt.want)
			} else {
				require.Nil(t, wrong)
			}
		})
	}
}
