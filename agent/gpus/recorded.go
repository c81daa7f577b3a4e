package gpus

import (
	"strings"

	"github.com/mindcoordinator/mind/agent/gpus/holding"
	"github.com/mindcoordinator/mind/agent/shim"
)

// HoldingOfRecord returns the GPUs that a task was launched with, from its record; err is the error of reading the
// record.
func (g *Monitor) HoldingOfRecord(spec shim.Spec, err error) holding.Holding {
	indices, ok := g.Indices(envOfSpec(spec, "CUDA_VISIBLE_DEVICES"))
	if err != nil || !ok {
		return holding.Holding{Unknown: true}
	}
	return holding.Holding{GPUs: indices, Shared: envOfSpec(spec, "MIND_GPU_FRACTION") != ""}
}

func envOfSpec(spec shim.Spec, name string) string {
	for _, entry := range spec.Env {
		if n, value, _ := strings.Cut(entry, "="); n == name {
			return value
		}
	}
	return ""
}
