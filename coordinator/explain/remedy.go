package explain

import (
	"fmt"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/scheduler/whatif"
)

// flags are the flags of mind submit for the keys of a change.
var flags = map[string]string{
	"gpus": "--gpus", "nodes": "--nodes", "gpu_fraction": "--gpu-fraction", "gpu_type": "--gpu-type", "cpus": "--cpus",
	"topology": "--topology", "queue": "--queue", "priority": "--priority", "max_runtime": "--time-limit",
}

// phrases express a change in words.
var phrases = map[string]string{
	"gpus": "%s GPUs", "nodes": "%s nodes", "gpu_fraction": "%s of a GPU", "gpu_type": "GPUs of type %s", "cpus": "%s CPUs on each node",
	"memory_mb": "%s MiB of memory on each node", "gpu_memory_mb": "GPUs with %s MiB of memory", "topology": "topology %s",
	"queue": "queue %s", "priority": "priority %s", "max_runtime": "a time limit of %s",
	"quota.max_gpus": "a quota of %s GPUs", "quota.max_running_jobs": "a quota of %s running jobs", "queue.max_gpus": "a limit of %s GPUs for its queue",
	"quota.max_gpus_by_type": "a quota of %s GPUs by type", "quota.max_gpu_hours": "a quota of %s GPU hours",
	"cancel": "job %s canceled", "selector": "the node selector %s",
}

// dropped express a change that removes a requirement.
var dropped = map[string]string{
	"gpu_type=": "any type of GPU", "selector=": "no node selector", "gpu_memory_mb=0": "no least memory of its GPUs",
	"queue.max_gpus=none": "no limit of GPUs for its queue", "topology=any": "GPUs that need not be linked",
	"held=false": "nothing that holds it", "quota.max_gpus_by_type=none": "a quota without limits by type",
	"queue.max_gpus_by_type=none": "no limits by type for its queue", "maintenance=none": "no maintenance of nodes",
	"reservations=none": "no reservations of other tenants", "protection=none": "no protection of running jobs from preemption",
}

// remedy converts a change with which a job would start now for answers.
func remedy(r *whatif.Remedy) *v1.Remedy {
	out := &v1.Remedy{Answer: answer(r.Suppose, r.Answer), Operator: r.Operator}
	var said, args, canceled []string
	for _, text := range r.Suppose {
		key, value, _ := strings.Cut(text, "=")
		switch phrase, drops := dropped[text]; {
		case drops:
			said = append(said, phrase)
		case key == "nodes" && value == "1":
			said = append(said, "one node")
		default:
			said = append(said, fmt.Sprintf(phrases[key], value))
		}
		switch flag := flags[key]; {
		case key == "cancel":
			canceled = append(canceled, value)
		case key == "memory_mb":
			args = append(args, "--memory", value+"Mi")
		case flag != "" && value != "":
			args = append(args, flag, value)
		}
	}
	out.Message = "with " + strings.Join(said, " and ")
	if r.Answer.Preempts > 0 {
		out.Message += fmt.Sprintf(" (%s would be preempted)", call.Plural(r.Answer.Preempts, "job"))
	}
	out.Flags = strings.Join(args, " ")
	if len(canceled) > 0 {
		out.Command = "mind cancel " + strings.Join(canceled, " ")
	}
	return out
}
