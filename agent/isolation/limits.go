package isolation

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	add := func(file string, value int) {
		if slices.Contains(i.files, file) {
			limits = append(limits, file+" "+strconv.Itoa(value))
		}
	}
	if memoryMB > 0 {
		add("memory.max", memoryMB<<20)
		// Swap would let a task slow down the whole machine instead of failing.
		add("memory.swap.max", 0)
	}
	// A task of which one process was killed often waits for it forever.
	add("memory.oom.group", 1)
	if cpus > 0 {
		add("cpu.weight", min(10000, 10*cpus))
	} else {
		add("cpu.weight", 10)
	}
	add("pids.max", maxProcesses)
	return limits
}

// limitFiles returns the settings that the groups of tasks have: those of their controllers. Kernels without swap accounting, for
// example, lack some of them.
func (i *Isolation) limitFiles() (files []string) {
	for _, file := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "cpu.weight", "pids.max"} {
		controller, _, _ := strings.Cut(file, ".")
		if _, err := os.Stat(filepath.Join(i.groups, file)); err == nil && slices.Contains(i.Controllers, controller) {
			files = append(files, file)
		}
	}
	return files
}
