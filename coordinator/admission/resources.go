package admission

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/api/launcher"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

// shapeOf reads the needs of the job per node. With a fault the result is empty.
func shapeOf(f *call.Faults, req *v1.SubmitJobRequest, inv Inventory) work.Shape {
	r := req.GetResourceConfig()
	before := f.Count()
	checkAmounts(f, r)
	topology, between := topologyOf(f, r.GetTopology())
	more := domainsOf(f, r, between, inv)
	if f.Count() == before {
		checkTogether(f, req, topology)
	}
	checkLabels(f, "resource_config.node_selector", r.GetNodeSelector())
	for _, k := range slices.Sorted(maps.Keys(r.GetNodeSelector())) {
		if strings.ContainsAny(r.GetNodeSelector()[k], ",=") {
			f.Bad("resource_config.node_selector", "the value of %s must not contain ',' or '='", k)
		}
	}
	if f.Count() != before {
		return work.Shape{}
	}
	shape := work.Shape{
		GPUType: work.CanonicalGPUType(r.GetGpuType()), FractionMilli: uint16(math.Round(r.GetGpuFraction() * 1000)), GPUMemMB: uint32(r.GetGpuMemoryMb()),
		CPUs: uint32(r.GetCpuCount()), MemMB: uint32(r.GetMemoryMb()), Topology: topology,
		Selector: work.CanonicalSelector(selectorOf(req)),
	}
	gpus, nodes := int(r.GetGpuCount()), int(r.GetNodeCount())
	if nodes == 0 {
		nodes = nodesFor(req, withDomains(shape, more), inv)
	}
	shape.Nodes, shape.GPUs = uint16(nodes), uint16(min(gpus/nodes, math.MaxUint16))
	shape = withDomains(shape, more)
	switch {
	case shape.GPUs <= work.MaxGPUs:
		return shape
	case inv.Nodes() == 0 || req.GetSchedulingConfig().GetAllowPendingCapacity():
		f.Bad("resource_config.gpu_count", "%d on %s: a node has at most %d; node_count (--nodes) spreads them", gpus, call.Plural(nodes, "node"), work.MaxGPUs)
	default:
		wrong := neverFits(r, shape, inv)
		f.Bad(wrong.Field, "%s", wrong.Message)
	}
	return work.Shape{}
}

// checkTogether checks how valid amounts fit together.
func checkTogether(f *call.Faults, req *v1.SubmitJobRequest, topology uint8) {
	r, before := req.GetResourceConfig(), f.Count()
	gpus, nodes, fraction := int(r.GetGpuCount()), int(r.GetNodeCount()), r.GetGpuFraction()
	switch {
	case fraction != 0 && gpus != 0:
		f.Bad("resource_config.gpu_fraction", "cannot be combined with gpu_count")
	case fraction != 0 && nodes > 1:
		f.Bad("resource_config.gpu_fraction", "is a share of one GPU, so node_count cannot be %d", nodes)
	case gpus == 0 && fraction == 0 && req.GetTrainingConfig() != nil:
		f.Bad("resource_config.gpu_count", "must be at least 1 for a training job")
	case gpus == 0 && fraction == 0 && (r.GetGpuType() != "" || r.GetGpuMemoryMb() != 0 || topology == work.TopologyNVLink):
		f.Bad("resource_config.gpu_count", "is 0, so gpu_type, gpu_memory_mb and topology nvlink have no effect: set gpu_count or omit them")
	}
	switch {
	case f.Count() != before:
	case topology == work.TopologySingleNode && nodes > 1:
		f.Bad("resource_config.node_count", "is %d but topology is single_node", nodes)
	case nodes > 1 && gpus%nodes != 0:
		f.Bad("resource_config.gpu_count", "%d cannot be shared equally by node_count %d", gpus, nodes)
	}
	if world := int(req.GetTrainingConfig().GetFramework().GetDistributed().GetWorldSize()); world > 0 && world != max(1, gpus) {
		f.Bad("training_config.framework.distributed.world_size", "is %d but resource_config.gpu_count is %d: one process runs per GPU", world, gpus)
	}
}

func checkAmounts(f *call.Faults, r *v1.ResourceConfig) {
	for _, a := range []struct {
		name  string
		value int32
		most  int32
	}{
		{"gpu_count", r.GetGpuCount(), maxGPUCount},
		{"node_count", r.GetNodeCount(), maxNodes},
		{"gpu_memory_mb", r.GetGpuMemoryMb(), math.MaxInt32},
		{"cpu_count", r.GetCpuCount(), 1 << 20},
		{"memory_mb", r.GetMemoryMb(), math.MaxInt32},
	} {
		if a.value < 0 || a.value > a.most {
			f.Bad("resource_config."+a.name, "%d must be between 0 and %d", a.value, a.most)
		}
	}
	if share := r.GetGpuFraction(); share != 0 && !(share >= 0.001 && share <= 0.999) {
		f.Bad("resource_config.gpu_fraction", "%v must be between 0 and 1 (0.001 to 0.999); for whole GPUs use gpu_count", share)
	}
	if len(r.GetGpuType()) > maxLabelVal {
		f.Bad("resource_config.gpu_type", "is longer than %d bytes", maxLabelVal)
	}
}

// usualNode is the assumed number of GPUs of a node while no node is known.
const usualNode = 8

// nodesFor returns the number of nodes of a job that does not set it. Only a training that its launcher starts on every
// node is spread, over as few nodes as could hold equal shares. Other programs get one node: they know nothing about
// other nodes, and would do the same work on each.
func nodesFor(req *v1.SubmitJobRequest, shape work.Shape, inv Inventory) int {
	gpus := int(req.GetResourceConfig().GetGpuCount())
	if _, distributed := launcher.For(req); !distributed || gpus <= 1 || shape.Topology == work.TopologySingleNode {
		return 1
	}
	if n := fewest(shape, gpus, inv); n > 0 {
		return n
	}
	// It does not fit the current cluster. The largest node decides how it would be spread.
	largest := usualNode
	shape.Nodes, shape.GPUs = 1, work.MaxGPUs+1
	if room := inv.RoomFor(shape); room.Lacks == capacity.NeedGPUs {
		largest = room.Most
	}
	nodes := (gpus + largest - 1) / largest
	for gpus%nodes != 0 {
		nodes++
	}
	return nodes
}

// fewest returns the smallest number of nodes that could hold equal shares of so many GPUs; 0: none could.
func fewest(shape work.Shape, gpus int, inv Inventory) int {
	for n := 1; n <= min(gpus, maxNodes); n++ {
		if gpus%n != 0 || gpus/n > work.MaxGPUs {
			continue
		}
		shape.Nodes, shape.GPUs = uint16(n), uint16(gpus/n)
		if inv.RoomFor(shape).Lacks == capacity.NeedNothing {
			return n
		}
	}
	return 0
}
