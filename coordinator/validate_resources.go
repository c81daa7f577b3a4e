package coordinator

import (
	"maps"
	"math"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

var topologies = map[string]uint8{
	"": fsm.TopologyAny, "any": fsm.TopologyAny, "nvlink": fsm.TopologyNVLink, "single_node": fsm.TopologySingleNode,
}

// shapeOf reads what the job needs, per node. With a fault it is empty.
func shapeOf(f *faults, req *v1.SubmitJobRequest, inv inventory) fsm.Shape {
	r := req.GetResourceConfig()
	before := f.count()
	f.checkAmounts(r)
	topology, ok := topologies[r.GetTopology()]
	if !ok {
		f.bad("resource_config.topology", "%q is none of any, nvlink, single_node", r.GetTopology())
	}
	nodes := 0
	if f.count() == before {
		nodes = f.gang(req, topology, inv)
	}
	f.checkLabels("resource_config.node_selector", r.GetNodeSelector())
	for _, k := range slices.Sorted(maps.Keys(r.GetNodeSelector())) {
		if strings.ContainsAny(r.GetNodeSelector()[k], ",=") {
			f.bad("resource_config.node_selector", "the value of %s must not contain ',' or '='", k)
		}
	}
	if f.count() != before {
		return fsm.Shape{}
	}
	return fsm.Shape{
		Nodes: uint16(nodes), GPUs: uint16(int(r.GetGpuCount()) / nodes), GPUType: r.GetGpuType(),
		FractionMilli: uint16(math.Round(r.GetGpuFraction() * 1000)), GPUMemMB: uint32(r.GetGpuMemoryMb()),
		CPUs: uint32(r.GetCpuCount()), MemMB: uint32(r.GetMemoryMb()), Topology: topology,
		Selector: fsm.CanonicalSelector(r.GetNodeSelector()),
	}
}

// gang looks at how amounts that are sound by themselves fit together, and returns the number of nodes.
func (f *faults) gang(req *v1.SubmitJobRequest, topology uint8, inv inventory) (nodes int) {
	r, before := req.GetResourceConfig(), f.count()
	gpus, fraction := int(r.GetGpuCount()), r.GetGpuFraction()
	switch {
	case fraction != 0 && gpus != 0:
		f.bad("resource_config.gpu_fraction", "goes instead of gpu_count, not with it")
	case fraction != 0 && r.GetNodeCount() > 1:
		f.bad("resource_config.gpu_fraction", "is a share of one GPU, so node_count cannot be %d", r.GetNodeCount())
	case gpus == 0 && fraction == 0 && req.GetTrainingConfig() != nil:
		f.bad("resource_config.gpu_count", "must be at least 1 for a training job")
	case gpus == 0 && fraction == 0 && (r.GetGpuType() != "" || r.GetGpuMemoryMb() != 0 || topology == fsm.TopologyNVLink):
		f.bad("resource_config.gpu_count", "is 0, so gpu_type, gpu_memory_mb and topology nvlink say nothing: set gpu_count or leave them out")
	}
	if f.count() == before {
		var err error
		nodes, err = nodesOf(r, topology, inv)
		f.add(err)
	}
	if world := int(req.GetTrainingConfig().GetFramework().GetDistributed().GetWorldSize()); world > 0 && world != max(1, gpus) {
		f.bad("training_config.framework.distributed.world_size", "is %d but resource_config.gpu_count is %d: one process runs per GPU", world, gpus)
	}
	return nodes
}

func (f *faults) checkAmounts(r *v1.ResourceConfig) {
	for _, a := range []struct {
		name  string
		value int32
		most  int32
	}{
		{"gpu_count", r.GetGpuCount(), maxGPUCount},
		{"node_count", r.GetNodeCount(), 4096},
		{"gpu_memory_mb", r.GetGpuMemoryMb(), math.MaxInt32},
		{"cpu_count", r.GetCpuCount(), 1 << 20},
		{"memory_mb", r.GetMemoryMb(), math.MaxInt32},
	} {
		if a.value < 0 || a.value > a.most {
			f.bad("resource_config."+a.name, "%d must lie between 0 and %d", a.value, a.most)
		}
	}
	if share := r.GetGpuFraction(); share != 0 && !(share >= 0.001 && share <= 0.999) {
		f.bad("resource_config.gpu_fraction", "%v must lie between 0 and 1 (0.001 to 0.999); for whole GPUs use gpu_count", share)
	}
	if len(r.GetGpuType()) > maxLabelVal {
		f.bad("resource_config.gpu_type", "is longer than %d bytes", maxLabelVal)
	}
}

// nodesOf is the size of the gang: as asked, or as few nodes as can hold equal shares.
func nodesOf(r *v1.ResourceConfig, topology uint8, inv inventory) (int, error) {
	gpus, nodes := int(r.GetGpuCount()), int(r.GetNodeCount())
	switch {
	case topology == fsm.TopologySingleNode && nodes > 1:
		return 0, bad("resource_config.node_count", "is %d but topology is single_node", nodes)
	case nodes > 1 && gpus > 0 && gpus%nodes != 0:
		return 0, bad("resource_config.gpu_count", "%d cannot be shared equally by node_count %d", gpus, nodes)
	case nodes > 0:
		if gpus/nodes > fsm.MaxGPUs {
			return 0, bad("resource_config.node_count", "%d nodes would need %d GPUs each; a node has at most %d", nodes, gpus/nodes, fsm.MaxGPUs)
		}
		return nodes, nil
	case gpus <= 1:
		return 1, nil
	case topology == fsm.TopologySingleNode:
		if gpus > fsm.MaxGPUs {
			return 0, bad("resource_config.gpu_count", "%d do not fit on one node; a node has at most %d", gpus, fsm.MaxGPUs)
		}
		return 1, nil
	}
	largest := inv.LargestNode(r.GetGpuType())
	if largest == 0 {
		largest = 8 // Nobody knows yet; the usual machine.
	}
	for nodes = (gpus + largest - 1) / largest; gpus%nodes != 0; nodes++ {
	}
	return nodes, nil
}
