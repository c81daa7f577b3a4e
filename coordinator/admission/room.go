package admission

import (
	"context"
	"fmt"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler/capacity"
	"github.com/mindcoordinator/mind/scheduler/quota"
)

// waitAnyway tells users how to submit a job for which there is no room yet.
const waitAnyway = "; scheduling_config.allow_pending_capacity (--allow-pending-capacity) lets it wait until there is more"

// checkRoom returns why a job could never run on the cluster as it is configured: because of its nodes, the limit of
// the queue, or the quota of the tenant. Nodes count whatever their state. A cluster without nodes refuses nothing,
// because its nodes are about to register.
//
// A job must not be refused because this replica lags: before a refusal, checkRoom waits until all writes that were
// acknowledged before the call are applied, once per call.
func (a *Admission) checkRoom(ctx context.Context, req *v1.SubmitJobRequest, job *jobverbs.NewJob) error {
	c := call.Of(ctx)
	if req.GetSchedulingConfig().GetAllowPendingCapacity() || job.Shape.Nodes == 0 {
		return nil
	}
	wrong := a.neverRuns(c.Tenant, req, job)
	if wrong == nil || c.UpToDate {
		return wrong
	}
	if _, err := a.state.Read(ctx); err != nil {
		return err
	}
	c.UpToDate = true
	return a.neverRuns(c.Tenant, req, job)
}

func (a *Admission) neverRuns(tenant string, req *v1.SubmitJobRequest, job *jobverbs.NewJob) error {
	if a.capacity.Nodes() > 0 {
		if wrong := neverFits(req.GetResourceConfig(), job.Shape, a.capacity); wrong != nil {
			if wrong.Field != "resource_config.gpu_type" { // The state only has types that some node has had.
				wrong.Message += waitAnyway
			}
			return wrong
		}
	}
	v, need := a.state.View(), job.Shape.GPUMilli()
	for q := range v.Lineage(job.Queue) {
		if why := q.Bars(0, job.Shape); why != "" {
			return call.Bad("scheduling_config.queue", "%s%s", words.Of(why), waitAnyway)
		}
	}
	if why := quota.NeverByType(v, tenant, job.Queue, job.Shape); why != "" {
		return call.Bad("resource_config.gpu_type", "%s%s", words.Of(why), waitAnyway)
	}
	if q, ok := v.Quota(tenant); ok && q.MaxGPUs != nil && need > 1000*int(*q.MaxGPUs) {
		return call.Bad("resource_config.gpu_count", "%s%s", words.Of(q.Bars(work.Usage{}, job.Shape)), waitAnyway)
	}
	return nil
}

// neverFits returns the need of a shape that the nodes could never meet, with the most that they could; nil: they could
// hold it.
func neverFits(r *v1.ResourceConfig, shape work.Shape, inv Inventory) *call.Invalid {
	room := inv.RoomFor(shape)
	fault := func(field, format string, args ...any) *call.Invalid {
		return &call.Invalid{Field: "resource_config." + field, Message: fmt.Sprintf(format, args...)}
	}
	// The other needs that the nodes must meet: those before the one that is not met.
	var beside []string
	such := func() string {
		if len(beside) == 0 {
			return "no node"
		}
		return "no node with " + strings.Join(beside, " and ")
	}
	gpus := "a GPU"
	if shape.GPUs > 0 {
		gpus = gpusInWords(int(shape.GPUs), shape.GPUType)
	}

	switch room.Lacks {
	case capacity.NeedNothing:
		return nil
	case capacity.NeedLabels:
		why := ""
		if strings.Contains(","+shape.Selector+",", ","+mountsLabel+"="+mountsValue+",") {
			why = ": a node lets jobs mount files if its agent has isolation full and mount_roots, and knows mounts"
		}
		return fault("node_selector", "no node has the labels %s%s", shape.Selector, why)
	case capacity.NeedNodes:
		if shape.GPUs == 0 {
			gpus = "a task of it"
		}
		if shape.Exclude != "" {
			return fault("exclude_nodes", "needs %s that can hold %s; without the excluded nodes there %s", call.Plural(int(shape.Nodes), "node"), gpus, areNodes(room.Most))
		}
		return fault("node_count", "needs %d nodes that can hold %s each; there %s%s", shape.Nodes, gpus, areNodes(room.Most), instead(r, shape, inv))
	}
	switch where := domains.NameOf(shape.Level); room.Lacks {
	case capacity.NeedLevel:
		return fault("topology_level", "no node that can hold %s has the label %s, so none is in any %s", gpus, shape.Level, where)
	case capacity.NeedDomain:
		return fault("topology", "needs %d nodes that can hold %s each in one %s; the most in one %s are %d (%s)", shape.Nodes, gpus, where, where, room.Most, room.Where)
	case capacity.NeedSegments:
		return fault("topology_segment", "needs %d segments of %d nodes that can hold %s each, every one in one %s; there is room for %d", int(shape.Nodes)/int(shape.Segment), shape.Segment, gpus, where, room.Most)
	}
	if shape.Selector != "" {
		beside = append(beside, "the labels "+shape.Selector)
	}
	switch room.Lacks {
	case capacity.NeedGPUType:
		if types := inv.GPUTypes(); shape.GPUType != "" && len(types) > 0 {
			return fault("gpu_type", "%s has GPUs of type %q; the types there are: %s", such(), shape.GPUType, strings.Join(types, ", "))
		}
		if len(inv.GPUTypes()) > 0 {
			return fault("gpu_type", "%s has whole GPUs; a slice (MIG) is asked for by its type, one of: %s", such(), strings.Join(inv.GPUTypes(), ", "))
		}
		return fault("gpu_count", "%s has GPUs", such())
	case capacity.NeedOneSlice:
		return fault("gpu_type", "%s is a slice of a GPU (MIG), and a process can use no more than one: ask for one GPU on each node, without a fraction", shape.GPUType)
	case capacity.NeedGPUMemory:
		return fault("gpu_memory_mb", "%s has a GPU with %d MiB; the largest has %d", such(), shape.GPUMemMB, room.Most)
	case capacity.NeedGPUs:
		return fault("gpu_count", "%s has %s; the largest has %d%s", such(), gpus, room.Most, instead(r, shape, inv))
	case capacity.NeedNVLink:
		return fault("topology", "%s has %s that are all linked by NVLink", such(), gpus)
	}
	if shape.NeedsGPU() {
		beside = append(beside, gpus)
	}
	if room.Lacks == capacity.NeedCPUs {
		return fault("cpu_count", "%s has %s; the largest has %d", such(), call.Plural(int(shape.CPUDemand()), "CPU"), room.Most)
	}
	if shape.CPUs > 0 {
		beside = append(beside, call.Plural(int(shape.CPUs), "CPU"))
	}
	return fault("memory_mb", "%s has %d MiB of memory; the largest has %d", such(), shape.MemMB, room.Most)
}

// instead suggests a number of GPUs that would fit, or a number of nodes for the requested GPUs.
func instead(r *v1.ResourceConfig, shape work.Shape, inv Inventory) string {
	if shape.GPUs == 0 || shape.Topology == work.TopologySingleNode {
		return ""
	}
	if n := fewest(shape, int(r.GetGpuCount()), inv); n > 0 {
		hint := fmt.Sprintf("; %s could hold them: set node_count %d (--nodes %d)", call.Plural(n, "node"), n, n)
		if n > 1 && shape.Nodes == 1 {
			hint += " if the program can run on several"
		}
		return hint
	}
	gpus, nodes := inv.Largest(shape)
	if gpus == 0 || shape.Topology != work.TopologyAny {
		return ""
	}
	return fmt.Sprintf("; the most that would fit is %s on %s", gpusInWords(gpus, shape.GPUType), call.Plural(nodes, "node"))
}

func gpusInWords(n int, kind string) string {
	if kind == "" {
		return call.Plural(n, "GPU")
	}
	return fmt.Sprintf("%d x %s", n, kind)
}

func areNodes(n int) string {
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}
