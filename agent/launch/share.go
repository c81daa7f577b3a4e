package launch

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mindcoordinator/mind/agent/isolation"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Names of NVIDIA's Multi-Process Service (MPS).
const (
	pipesVariable   = "CUDA_MPS_PIPE_DIRECTORY"
	usualPipes      = "/tmp/nvidia-mps"
	controlFile     = "nvidia-cuda-mps-control.pid"
	threadsVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	memoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
)

// setShare tells the CUDA of a task that has a share of a GPU how much it may take of the processors and the memory, where MPS runs: it
// holds its clients to that. Without MPS these variables have no effect.
func (l *Launcher) setShare(env *environment, spec *v1.TaskSpec) {
	share := spec.GetGpuFraction()
	if share <= 0 || share >= 1 || len(spec.GetGpus()) != 1 || l.Isolation != nil && l.Isolation.Level == isolation.Full {
		return
	}
	pipes := cmp.Or(os.Getenv(pipesVariable), usualPipes)
	if _, err := os.Lstat(filepath.Join(pipes, controlFile)); err != nil {
		return
	}
	env.set(pipesVariable, pipes)
	env.set(threadsVariable, strconv.FormatFloat(100*share, 'g', 4, 64))
	if l.MemoryMB == nil {
		return
	}
	if mb := l.MemoryMB(spec.GetGpus()[0]); mb > 0 {
		// The task sees one GPU, which is number 0 there.
		env.set(memoryVariable, fmt.Sprintf("0=%dM", int(math.Floor(float64(mb)*share))))
	}
}
