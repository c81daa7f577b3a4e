package trace

import (
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/fsm/work"
)

// OpenBNodes reads an inventory: sn, cpu_milli, memory_mib, gpu and model.
func OpenBNodes(r io.Reader) ([]*work.Node, error) {
	t, err := newTable(r, "sn", "cpu_milli", "memory_mib", "gpu", "model")
	if err != nil {
		return nil, err
	}
	var nodes []*work.Node
	for t.next() {
		cpus, mem := t.number("cpu_milli", 0, math.MaxUint32), t.number("memory_mib", 0, math.MaxUint32)
		gpus := t.number("gpu", 0, work.MaxGPUs)
		if t.err != nil {
			break
		}
		n, err := Node(strings.Clone(t.text("sn")), int(gpus), strings.Clone(t.text("model")), uint32(cpus), uint32(mem))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	if t.err == nil && len(nodes) == 0 {
		t.err = ErrEmpty
	}
	return nodes, t.err
}

// OpenBJobs reads pods: name, cpu_milli, memory_mib, num_gpu and gpu_milli; and, if the file has them, gpu_spec,
// creation_time and deletion_time, in seconds.
func OpenBJobs(r io.Reader) ([]Job, error) {
	t, err := newTable(r, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for t.next() {
		j := Job{ID: strings.Clone(t.text("name")), User: "openb"}
		j.Shape = work.Shape{
			Nodes: 1, GPUs: uint16(t.number("num_gpu", 0, work.MaxGPUs)), GPUType: strings.Clone(t.text("gpu_spec")),
			CPUs: uint32(t.number("cpu_milli", 0, math.MaxUint32)), MemMB: uint32(t.number("memory_mib", 0, math.MaxUint32)),
		}
		if j.Shape.GPUs == 1 {
			if milli := t.number("gpu_milli", 1, 1000); milli < 1000 {
				j.Shape.GPUs, j.Shape.FractionMilli = 0, uint16(milli)
			}
		}
		if t.text("creation_time") != "" && t.text("deletion_time") != "" {
			j.Submit = time.Duration(t.number("creation_time", 0, math.MaxInt32)) * time.Second
			j.Takes = time.Duration(t.number("deletion_time", 0, math.MaxInt32))*time.Second - j.Submit
		}
		jobs = append(jobs, j)
	}
	if t.err == nil && len(jobs) == 0 {
		t.err = ErrEmpty
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return int((a.Submit - b.Submit) / time.Second) })
	return jobs, t.err
}
