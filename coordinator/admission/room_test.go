package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

// mixed returns two nodes with eight H100 and one with four A100.
func mixed() *capacity.Capacity {
	c := capacity.New()
	for _, n := range []struct {
		id, kind string
		gpus     uint8
		cpus     uint32
	}{{"n1", "H100", 8, 64}, {"n2", "H100", 8, 32}, {"n3", "A100", 4, 128}} {
		node := &work.Node{ID: n.id, CPUs: n.cpus, MemMB: 500_000, Labels: map[string]string{"kind": n.kind}}
		for i := range n.gpus {
			node.GPUs = append(node.GPUs, work.GPU{Index: i, Model: "NVIDIA " + n.kind, Type: n.kind, MemMB: 80_000})
		}
		c.Put(node)
	}
	sliced := &work.Node{ID: "n4", CPUs: 8, MemMB: 500_000, Labels: map[string]string{"kind": "sliced"}}
	for i := range uint8(2) {
		sliced.GPUs = append(sliced.GPUs, work.GPU{Index: i, Model: "NVIDIA H100 MIG 1g.10gb", Type: "H100-1g.10gb", MemMB: 9_856, MIG: "1g.10gb"})
	}
	c.Put(sliced)
	return c
}

func TestNeverFits_saysWhatWouldFit(t *testing.T) {
	for name, tt := range map[string]struct {
		resources *v1.ResourceConfig
		want      string
	}{
		"CPUs":                   {&v1.ResourceConfig{CpuCount: 4000}, "resource_config.cpu_count: no node has 4000 CPUs; the largest has 128"},
		"CPUs beside GPUs":       {&v1.ResourceConfig{GpuCount: 8, CpuCount: 100}, "resource_config.cpu_count: no node with 8 GPUs has 100 CPUs; the largest has 64"},
		"memory":                 {&v1.ResourceConfig{MemoryMb: 1 << 20, CpuCount: 4}, "resource_config.memory_mb: no node with 4 CPUs has 1048576 MiB of memory; the largest has 500000"},
		"a type":                 {&v1.ResourceConfig{GpuCount: 1, GpuType: "B200"}, `resource_config.gpu_type: no node has GPUs of type "B200"; the types there are: A100, H100, H100-1g.10gb`},
		"a type on these nodes":  {&v1.ResourceConfig{GpuCount: 1, GpuType: "A100", NodeSelector: map[string]string{"kind": "H100"}}, `resource_config.gpu_type: no node with the labels kind=H100 has GPUs of type "A100"; the types there are: A100, H100, H100-1g.10gb`},
		"two slices":             {&v1.ResourceConfig{GpuCount: 2, GpuType: "H100-1g.10gb"}, "resource_config.gpu_type: H100-1g.10gb is a slice of a GPU (MIG), and a process can use no more than one: ask for one GPU on each node, without a fraction"},
		"a share of a slice":     {&v1.ResourceConfig{GpuFraction: 0.5, GpuType: "H100-1g.10gb"}, "resource_config.gpu_type: H100-1g.10gb is a slice of a GPU (MIG), and a process can use no more than one: ask for one GPU on each node, without a fraction"},
		"slices are no GPUs":     {&v1.ResourceConfig{GpuCount: 1, NodeSelector: map[string]string{"kind": "sliced"}}, "resource_config.gpu_type: no node with the labels kind=sliced has whole GPUs; a slice (MIG) is asked for by its type, one of: A100, H100, H100-1g.10gb"},
		"labels":                 {&v1.ResourceConfig{NodeSelector: map[string]string{"kind": "B200"}}, "resource_config.node_selector: no node has the labels kind=B200"},
		"memory of a GPU":        {&v1.ResourceConfig{GpuCount: 1, GpuMemoryMb: 100_000}, "resource_config.gpu_memory_mb: no node has a GPU with 100000 MiB; the largest has 80000"},
		"more nodes would do":    {&v1.ResourceConfig{GpuCount: 16, GpuType: "H100"}, "resource_config.gpu_count: no node has 16 x H100; the largest has 8; 2 nodes could hold them: set node_count 2 (--nodes 2) if the program can run on several"},
		"no number of nodes":     {&v1.ResourceConfig{GpuCount: 8, GpuType: "A100"}, "resource_config.gpu_count: no node has 8 x A100; the largest has 4; the most that would fit is 4 x A100 on 1 node"},
		"more than any node can": {&v1.ResourceConfig{GpuCount: 9999}, "resource_config.gpu_count: no node has 9999 GPUs; the largest has 8; the most that would fit is 16 GPUs on 2 nodes"},
		"on one node":            {&v1.ResourceConfig{GpuCount: 16, Topology: "single_node"}, "resource_config.gpu_count: no node has 16 GPUs; the largest has 8"},
		"linked":                 {&v1.ResourceConfig{GpuCount: 2, Topology: "nvlink"}, "resource_config.topology: no node has 2 GPUs that are all linked by NVLink"},
		"nodes":                  {&v1.ResourceConfig{GpuCount: 24, NodeCount: 3}, "resource_config.node_count: needs 3 nodes that can hold 8 GPUs each; there are 2; the most that would fit is 16 GPUs on 2 nodes"},
		"fewer nodes would do":   {&v1.ResourceConfig{GpuCount: 4, GpuType: "A100", NodeCount: 4}, "resource_config.node_count: needs 4 nodes that can hold 1 x A100 each; there is 1; 1 node could hold them: set node_count 1 (--nodes 1)"},
		"nodes without GPUs":     {&v1.ResourceConfig{CpuCount: 1, NodeCount: 5}, "resource_config.node_count: needs 5 nodes that can hold a task of it each; there are 4"},
	} {
		t.Run(name, func(t *testing.T) {
			req := commandJob()
			req.ResourceConfig = tt.resources
			job, err := Parse(req, mixed())
			if err == nil {
				err = neverFits(tt.resources, job.Shape, mixed())
			}
			require.EqualError(t, err, tt.want)
		})
	}
	req := commandJob()
	req.ResourceConfig = &v1.ResourceConfig{GpuCount: 65}
	_, err := Parse(req, capacity.New())
	const want = "resource_config.gpu_count: 65 on 1 node: a node has at most 64; node_count (--nodes) spreads them"
	require.EqualError(t, err, want)
	req.SchedulingConfig = &v1.SchedulingConfig{AllowPendingCapacity: true}
	_, err = Parse(req, mixed())
	require.EqualError(t, err, want, "it is not the nodes of today that are too small")
}
