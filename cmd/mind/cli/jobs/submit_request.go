package jobs

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
)

// SubmitOptions are the flags of submit.
type SubmitOptions struct {
	file, key    string
	wait, follow bool

	name, gpuType, memory, queue, cwd, array, outputDir string
	gpus, nodes, cpus, priority, retries                int
	noRestart                                           bool
	fraction                                            float64
	env, labels, selector, after, retryOn               []string
	timeLimit, lostAfter, grace, limitNotice            request.Duration
	begin                                               string
	preemptible, pending, auto                          bool
	topology, level                                     string
	venv, upload                                        string
	mounts                                              []string
	segment                                             int
	exclude                                             []string
	spread, pack                                        bool
	notify                                              string
	notifyOn                                            []string
	notifyAfter                                         request.Duration
}

// Bind adds the flags to a command.
func (o *SubmitOptions) Bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "YAML or JSON file with a job as in POST /jobs, or - for stdin; flags override it")
	f.StringVar(&o.name, "name", "", "name of the job (default: that of the command)")
	f.IntVar(&o.gpus, "gpus", 0, "number of GPUs, over all nodes")
	f.Float64Var(&o.fraction, "gpu-fraction", 0, "part of one GPU, such as 0.25")
	f.StringVar(&o.gpuType, "gpu-type", "", "type of the GPUs, such as H100")
	f.IntVar(&o.nodes, "nodes", 1, "number of nodes, each with an equal share of the GPUs")
	f.IntVar(&o.cpus, "cpus", 0, "CPUs of each node")
	f.StringVar(&o.memory, "memory", "", "memory of each node, such as 64Gi or 512Mi")
	f.StringVar(&o.queue, "queue", "", "queue (default: default)")
	f.IntVar(&o.priority, "priority", 5, "0 to 10; 10 goes first")
	f.StringVar(&o.cwd, "cwd", "", "working directory on the nodes (default: this one)")
	f.StringVar(&o.upload, "upload", "", "directory whose files go with the job, such as . : each attempt runs in a copy of its own; see docs/use/uploads.md")
	f.StringArrayVar(&o.mounts, "mount", nil, "file or directory of the node at another place in the job, SOURCE:TARGET or SOURCE:TARGET:rw; repeatable; needs nodes with isolation full and mount_roots")
	f.StringArrayVar(&o.env, "env", nil, "environment variable KEY=VALUE; repeatable")
	f.StringVar(&o.venv, "venv", "", "Python environment (venv or conda) whose programs come first in the PATH of the job: its directory, which the nodes have too")
	f.BoolVar(&o.auto, "auto", false, "let transformers and Lightning of the job report to mind, unchanged: needs the Python package mindcoordinator in its environment")
	f.StringArrayVar(&o.labels, "label", nil, "label KEY=VALUE; repeatable")
	f.StringArrayVar(&o.selector, "node-selector", nil, "only nodes with this label KEY=VALUE; repeatable")
	f.StringVar(&o.topology, "topology", "", "on a node: any, nvlink or single_node; between nodes: same_domain, prefer or spread; one of each with a comma between them")
	f.StringVar(&o.level, "topology-level", "", "the domains that --topology is about, such as clique, leaf, spine or block (default: the innermost level that nodes have labels for)")
	f.IntVar(&o.segment, "segment", 0, "with --topology same_domain: each so many consecutive ranks are in one domain, and the job may span several")
	f.StringSliceVar(&o.exclude, "exclude", nil, "nodes not to use, such as n1,n7 or rack1-*")
	f.BoolVar(&o.spread, "spread", false, "put each task on the node where the most is free")
	f.BoolVar(&o.pack, "pack", false, "put each task where it costs other jobs the least (the default)")
	f.Var(&o.timeLimit, "time-limit", "stop the job after this time, such as 2h or 3d")
	f.Var(&o.limitNotice, "notice", "how long before --time-limit the job gets its notice; 0: never (default: the grace period)")
	f.IntVar(&o.retries, "max-retries", 0, "restarts after its own process failed; restarts after a lost node or a failed GPU do not count")
	f.StringSliceVar(&o.retryOn, "retry-on", nil, "restart only after these: node_lost, gpu_fault, launch_failed, data_fetch, exit (default: all)")
	f.BoolVar(&o.noRestart, "no-restart", false, "never restart it, not even after a lost node, a preemption or a drain")
	f.Var(&o.lostAfter, "lost-after", "how long its node may be unreachable before the job may run elsewhere, such as 2m (default 1m)")
	f.Var(&o.grace, "grace", "grace period: time between the stop notice and the kill (default 30s)")
	f.BoolVar(&o.preemptible, "preemptible", false, "jobs of higher priority may preempt it: it gets a notice, saves a checkpoint and is restarted later")
	f.BoolVar(&o.pending, "allow-pending-capacity", false, "let the job wait even if it exceeds the nodes, the queue's limit or the quota of today")
	f.StringVar(&o.begin, "begin", "", "do not start it before this time: 2026-07-01T08:00:00Z, or from now on, such as 2h")
	f.StringVar(&o.outputDir, "output-dir", "", "directory for its outputs on the nodes")
	f.StringVar(&o.notify, "notify", "", "URL that gets signed webhooks about the job, such as https://hooks.example.org/jobs")
	f.StringSliceVar(&o.notifyOn, "notify-on", nil, "tell it of these: started, failed, ended, waiting (default: the first three)")
	f.Var(&o.notifyAfter, "notify-after", "with --notify-on waiting: after so long in the queue, such as 30m (default 1h)")
	f.StringVar(&o.array, "array", "", "one element for each number: FIRST-LAST, or FIRST-LAST%MOST-AT-ONCE")
	f.StringArrayVar(&o.after, "after", nil, "wait for another job: JOB, JOB:ok, JOB:fail or JOB:any; repeatable")
	f.StringVar(&o.key, "idempotency-key", "", "a second submit with the same key returns the first one's job")
	f.BoolVar(&o.wait, "wait", false, "wait for the end and exit with the job's exit code")
	f.BoolVar(&o.follow, "follow", false, "print the log until the job ends and exit with the job's exit code")
	completeFlags(cmd)
}

// Request builds the body of POST /jobs.
func (o *SubmitOptions) Request(flags *pflag.FlagSet, argv []string, getwd func() (string, error)) (map[string]any, error) {
	body := request.Object{}
	if o.file != "" {
		var err error
		if body, err = request.Read(o.file); err != nil {
			return nil, err
		}
	} else if len(argv) == 0 {
		return nil, errors.New("there is nothing to run: give a command after --, or a file with -f")
	}
	var faults []error
	set := func(flag, section, field string, value func() (any, error)) {
		if !flags.Changed(flag) {
			return
		}
		v, err := value()
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
			return
		}
		body.In(section)[field] = v
	}
	if flags.Changed("pack") && flags.Changed("spread") {
		faults = append(faults, errors.New("--pack and --spread contradict each other: give one of them"))
	}
	pairs := func(texts []string) func() (any, error) {
		return func() (any, error) { return settings.Pairs(texts) }
	}

	if len(argv) > 0 {
		command := body.In("command_config")
		command["argv"] = argv
		delete(command, "command")
	}
	command, ok := body["command_config"]
	if flags.Changed("upload") && !ok {
		return nil, errors.New("--upload is for commands, and the file has none")
	}
	_, uploaded := request.AsObject(command)["upload"]
	switch {
	case ok && (uploaded || flags.Changed("upload")):
		// A relative directory is one of the upload.
		if flags.Changed("cwd") {
			body.In("command_config")["cwd"] = o.cwd
		}
	case ok:
		if _, given := request.AsObject(command)["cwd"]; !given || flags.Changed("cwd") {
			dir := o.cwd
			if dir == "" {
				here, err := getwd()
				if err != nil {
					return nil, fmt.Errorf("finding the working directory (give --cwd): %w", err)
				}
				dir = here
			} else if !filepath.IsAbs(dir) {
				here, err := getwd()
				if err != nil {
					return nil, fmt.Errorf("finding the working directory (give --cwd in full): %w", err)
				}
				dir = filepath.Join(here, dir)
			}
			body.In("command_config")["cwd"] = dir
		}
	}
	if flags.Changed("name") || body["name"] == nil {
		if body["name"] = o.name; o.name == "" {
			body["name"] = baseName(argv, "")
		}
	}
	if flags.Changed("label") {
		labels, err := settings.Pairs(o.labels)
		if err != nil {
			faults = append(faults, fmt.Errorf("--label: %w", err))
		}
		body["labels"] = labels
	}

	environment := "command_config"
	if _, training := body["training_config"]; training {
		environment = "training_config"
	}
	set("env", environment, "environment", pairs(o.env))
	set("mount", environment, "mounts", func() (any, error) { return o.mounts, nil })
	if o.auto {
		faults = append(faults, switchOn(body.In(environment)))
	}
	if flags.Changed("venv") {
		faults = append(faults, o.enterVenv(body.In(environment), getwd))
	}
	set("gpus", "resource_config", "gpu_count", request.Just(o.gpus))
	set("gpu-fraction", "resource_config", "gpu_fraction", func() (any, error) {
		if !(o.fraction > 0 && o.fraction < 1) {
			return nil, fmt.Errorf("%g: it must be a part of one GPU, between 0.001 and 0.999", o.fraction)
		}
		return o.fraction, nil
	})
	set("gpu-type", "resource_config", "gpu_type", request.Just(o.gpuType))
	set("nodes", "resource_config", "node_count", request.Just(o.nodes))
	set("cpus", "resource_config", "cpu_count", request.Just(o.cpus))
	set("memory", "resource_config", "memory_mb", func() (any, error) { return request.Mebibytes(o.memory) })
	set("node-selector", "resource_config", "node_selector", pairs(o.selector))
	set("topology", "resource_config", "topology", request.Just(o.topology))
	set("topology-level", "resource_config", "topology_level", request.Just(o.level))
	set("segment", "resource_config", "topology_segment", request.Just(o.segment))
	set("exclude", "resource_config", "exclude_nodes", request.Just(o.exclude))
	set("pack", "resource_config", "placement", request.Just("pack"))
	set("spread", "resource_config", "placement", request.Just("spread"))
	set("output-dir", "output_config", "output_dir", request.Just(o.outputDir))
	set("queue", "scheduling_config", "queue", request.Just(o.queue))
	set("priority", "scheduling_config", "priority", request.Just(o.priority))
	set("max-retries", "scheduling_config", "max_retries", request.Just(o.retries))
	set("no-restart", "scheduling_config", "restartable", request.Just(!o.noRestart))
	set("retry-on", "scheduling_config", "retry_on", request.Just(o.retryOn))
	set("preemptible", "scheduling_config", "preemptible", request.Just(o.preemptible))
	set("allow-pending-capacity", "scheduling_config", "allow_pending_capacity", request.Just(o.pending))
	set("begin", "scheduling_config", "not_before", func() (any, error) { return begin(o.begin, time.Now()) })
	set("time-limit", "scheduling_config", "max_runtime_seconds", request.Seconds(time.Duration(o.timeLimit)))
	set("notice", "scheduling_config", "notice_before_limit_seconds", request.Seconds(time.Duration(o.limitNotice)))
	set("lost-after", "scheduling_config", "lost_after_seconds", request.Seconds(time.Duration(o.lostAfter)))
	set("grace", "scheduling_config", "grace_period_seconds", request.Seconds(time.Duration(o.grace)))
	set("notify", "notify_config", "url", request.Just(o.notify))
	set("notify-on", "notify_config", "on", request.Just(o.notifyOn))
	set("notify-after", "notify_config", "waiting_after_seconds", request.Seconds(time.Duration(o.notifyAfter)))
	set("array", "scheduling_config", "array", func() (any, error) { return arraySpec(o.array) })
	set("after", "scheduling_config", "dependencies", func() (any, error) { return dependencies(o.after) })
	if err := errors.Join(faults...); err != nil {
		return body, err
	}
	return body, request.CheckUTF8(map[string]any(body), "")
}

var arrayForm = regexp.MustCompile(`^(\d{1,9})-(\d{1,9})(?:%(\d{1,9}))?$`)

func arraySpec(text string) (any, error) {
	m := arrayForm.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is not of the form FIRST-LAST or FIRST-LAST%%MOST-AT-ONCE, such as 0-9%%3", text)
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	spec := map[string]any{"start": number(m[1]), "end": number(m[2])}
	if m[3] != "" {
		spec["max_parallel"] = number(m[3])
	}
	return spec, nil
}

func dependencies(texts []string) (any, error) {
	var all []map[string]any
	for _, text := range texts {
		id, condition, given := strings.Cut(text, ":")
		if !given {
			condition = "ok"
		}
		if id == "" || (condition != "ok" && condition != "fail" && condition != "any") {
			return nil, fmt.Errorf("%q is not of the form JOB, JOB:ok, JOB:fail or JOB:any", text)
		}
		all = append(all, map[string]any{"job_id": id, "condition": condition})
	}
	return all, nil
}
