package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
)

func init() { jobVerbs.Add(newUpdateJob) }

func newUpdateJob() *cobra.Command {
	o := &updateOptions{}
	cmd := rest.Command(&cobra.Command{
		Use:   "update JOB",
		Short: "Change what a job asks for",
		Long: `Changes a job that is not over. The job keeps its id and its place by age; fields without a flag stay as they are, and those
with 0 or an empty value are taken away.

Resources, the queue and --begin can be changed while the job waits or is paused. Name, labels, priority, time limit, retries and
whether it may be preempted can be changed while it runs too. A change of an array is one of all its elements that are not over.`,
		Example: `  mind update job_1a2b --priority 9
  mind update job_1a2b --gpus 4 --gpu-type A100
  mind update job_1a2b --gpu-type "" --exclude ""
  mind update job_1a2b --time-limit 2d --label reviewed=yes
  mind update job_1a2b --begin 2h`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body, err := o.request(cmd.Flags(), time.Now())
		if err != nil {
			return exit.Misuse(err)
		}
		var j Job
		data, err := c.Call(ctx, http.MethodPatch, "/jobs/"+url.PathEscape(args[0]), nil, body, rest.NewKey(), &j)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", args[0], j.Status)
		return err
	})
	o.bind(cmd)
	return cmd
}

// updateOptions are the flags of update. They mean what they mean to submit.
type updateOptions struct {
	name, gpuType, memory, queue, begin string
	gpus, nodes, cpus, priority         int
	retries                             int
	fraction                            float64
	labels, selector, retryOn, exclude  []string
	topology, level                     string
	segment                             int
	limit, notice                       request.Duration
	preemptible, restart, pending       bool
}

func (o *updateOptions) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the job")
	f.StringArrayVar(&o.labels, "label", nil, "label KEY=VALUE to set, or KEY= to take away; repeatable")
	f.IntVar(&o.priority, "priority", 5, "0 to 10; 10 goes first")
	f.StringVar(&o.queue, "queue", "", "queue")
	f.IntVar(&o.gpus, "gpus", 0, "number of GPUs, over all nodes")
	f.Float64Var(&o.fraction, "gpu-fraction", 0, "part of one GPU, such as 0.25")
	f.StringVar(&o.gpuType, "gpu-type", "", "type of the GPUs, such as H100")
	f.IntVar(&o.nodes, "nodes", 1, "number of nodes, each with an equal share of the GPUs")
	f.IntVar(&o.cpus, "cpus", 0, "CPUs of each node")
	f.StringVar(&o.memory, "memory", "", "memory of each node, such as 64Gi or 512Mi")
	f.StringArrayVar(&o.selector, "node-selector", nil, "only nodes with this label KEY=VALUE; repeatable; replaces those of the job")
	f.StringSliceVar(&o.exclude, "exclude", nil, "nodes not to use, such as n1,n7 or rack1-*; replaces those of the job")
	f.StringVar(&o.topology, "topology", "", "on a node: any, nvlink or single_node; between nodes: same_domain, prefer or spread; one of each with a comma between them")
	f.StringVar(&o.level, "topology-level", "", "the domains that --topology is about, such as clique, leaf, spine or block")
	f.IntVar(&o.segment, "segment", 0, "with --topology same_domain: each so many consecutive ranks are in one domain")
	f.Var(&o.limit, "time-limit", "stop the job this long after the start of its attempt, such as 2h or 3d; 0: no limit")
	f.Var(&o.notice, "notice", "how long before --time-limit the job gets its notice; 0: never")
	f.IntVar(&o.retries, "max-retries", 0, "restarts after its own process failed")
	f.StringSliceVar(&o.retryOn, "retry-on", nil, "restart only after these: node_lost, gpu_fault, launch_failed, data_fetch, exit")
	f.BoolVar(&o.restart, "restart", true, "restart it after a lost node, a preemption or a drain")
	f.BoolVar(&o.preemptible, "preemptible", false, "jobs of higher priority may preempt it")
	f.StringVar(&o.begin, "begin", "", "do not start it before this time: 2026-07-01T08:00:00Z, or from now on, such as 2h; 0s: at once")
	f.BoolVar(&o.pending, "allow-pending-capacity", false, "let the job wait even if it exceeds the nodes, the queue's limit or the quota of today")
	completeFlags(cmd)
}

// request builds the body of PATCH /jobs/ID from the flags that were given.
func (o *updateOptions) request(flags *pflag.FlagSet, now time.Time) (request.Object, error) {
	body := request.Object{}
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
		if section == "" {
			body[field] = v
			return
		}
		body.In(section)[field] = v
	}
	count := func(n int) func() (any, error) {
		return func() (any, error) {
			if n < 0 {
				return nil, fmt.Errorf("%d: it must be 0 or more", n)
			}
			return n, nil
		}
	}
	const resources, scheduling = "resource_config", "scheduling_config"
	set("name", "", "name", request.Just(o.name))
	set("label", "", "labels", func() (any, error) { return labelChanges(o.labels) })
	set("gpus", resources, "gpu_count", count(o.gpus))
	set("gpu-fraction", resources, "gpu_fraction", request.Just(o.fraction))
	set("gpu-type", resources, "gpu_type", request.Just(o.gpuType))
	set("nodes", resources, "node_count", count(o.nodes))
	set("cpus", resources, "cpu_count", count(o.cpus))
	set("memory", resources, "memory_mb", func() (any, error) {
		if o.memory == "" {
			return 0, nil
		}
		return request.Mebibytes(o.memory)
	})
	set("node-selector", resources, "node_selector", func() (any, error) {
		if slices.Equal(o.selector, []string{""}) {
			return request.Object{}, nil
		}
		return settings.Pairs(o.selector)
	})
	set("exclude", resources, "exclude_nodes", request.Just(o.exclude))
	set("topology", resources, "topology", request.Just(o.topology))
	set("topology-level", resources, "topology_level", request.Just(o.level))
	set("segment", resources, "topology_segment", count(o.segment))
	set("queue", scheduling, "queue", func() (any, error) {
		if o.queue == "" {
			return nil, errors.New("give the name of a queue: a job is always in one")
		}
		return o.queue, nil
	})
	set("priority", scheduling, "priority", request.Just(o.priority))
	set("max-retries", scheduling, "max_retries", request.Just(o.retries))
	set("retry-on", scheduling, "retry_on", request.Just(o.retryOn))
	set("restart", scheduling, "restartable", request.Just(o.restart))
	set("preemptible", scheduling, "preemptible", request.Just(o.preemptible))
	set("time-limit", scheduling, "max_runtime_seconds", request.Seconds(time.Duration(o.limit)))
	set("notice", scheduling, "notice_before_limit_seconds", request.Seconds(time.Duration(o.notice)))
	set("begin", scheduling, "not_before", func() (any, error) { return begin(o.begin, now) })
	set("allow-pending-capacity", scheduling, "allow_pending_capacity", request.Just(o.pending))
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, errors.New("nothing to change: give a flag, such as --priority 9")
	}
	return body, nil
}

// labelChanges parses KEY=VALUE and KEY=.
func labelChanges(texts []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range texts {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("%q is not KEY=VALUE", text)
		}
		all[k] = v
	}
	return all, nil
}

// begin parses the time before which a job does not start.
func begin(text string, now time.Time) (string, error) {
	at, err := request.Ahead(text, now)
	if err != nil {
		return "", err
	}
	return at.UTC().Format(time.RFC3339), nil
}
