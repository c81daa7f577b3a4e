package isolation

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// maxProcesses limits the processes and threads of a task: a fork bomb must not keep the machine from anything else, and no
// training needs that many.
const maxProcesses = 32768

// Limits returns the settings of a task's control group, each a file and its value, for a task that asked for memory and
// CPUs; 0: it asked for none.
//
// Memory is a limit: beyond it the kernel kills the whole task. CPUs are a weight, not a limit: what other tasks do not use is
// free for all, as loading data in bursts is the rule in trainings.
func (i *Isolation) Limits(memoryMB, cpus int) []string {
	if i.groups == "" {
		return nil
	}
	var limits []string
	// Kernels without swap accounting, for example, lack some of the files.
	add := func(controller, file string, value int) {
		if _, err := os.Stat(filepath.Join(i.groups, file)); err == nil && slices.Contains(i.Controllers, controller) {
			limits = append(limits, file+" "+strconv.Itoa(value))
		}
	}
	if memoryMB > 0 {
		add("memory", "memory.max", memoryMB<<20)
		// Swap would let a task slow down the whole machine instead of failing.
		add("memory", "memory.swap.max", 0)
	}
	// A task of which one process was killed often waits for it forever.
	add("memory", "memory.oom.group", 1)
	if cpus > 0 {
		add("cpu", "cpu.weight", min(10000, 10*cpus))
	} else {
		add("cpu", "cpu.weight", 10)
	}
	add("pids", "pids.max", maxProcesses)
	return limits
}
