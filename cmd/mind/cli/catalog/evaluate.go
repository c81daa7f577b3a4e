package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/settings"
)

// evaluateOptions are the flags of evaluate.
type evaluateOptions struct {
	file, key                                string
	wait                                     bool
	name, checkpoint, model                  string
	benchmarks, datasets, parameters, labels []string
	gpus, cpus, priority, retries            int
	fraction                                 float64
	gpuType, memory, queue                   string
	selector, retryOn                        []string
	timeLimit                                time.Duration
	pending                                  bool
}

func newEvaluate() *cobra.Command {
	o := &evaluateOptions{}
	cmd := rest.Command(&cobra.Command{
		Use:   "evaluate JOB|MODEL --benchmark NAME[:SAMPLES] [--benchmark ...]",
		Short: "Score a model with benchmarks and print the id of the evaluation",
		Long: `Scores a model with benchmarks and prints the id of the evaluation.

JOB is a job that has succeeded or registered a checkpoint: its newest checkpoint is scored, or the one given by --checkpoint.
MODEL is an absolute path or a URI such as hf://organisation/name. The evaluation is itself a job: it needs one GPU unless
--gpus or --gpu-fraction say otherwise, and the launcher EVALUATION starts it.

With --wait it also prints the results. The exit code is then that of the workload, 75 if it was canceled or lost, and 1 if a
benchmark has no results.`,
		Example: `  mind evaluate job_1a2b --benchmark mmlu:100 --benchmark humaneval --wait
  mind evaluate job_1a2b --checkpoint ckpt_3c4d --benchmark mmlu --param temperature=0.0
  mind evaluate hf://mistralai/Mistral-7B-v0.3 --benchmark own --dataset own=s3://bucket/own.jsonl --gpus 2
  mind evaluate -f evaluation.yaml`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: jobs.CompleteJobs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body, err := o.request(cmd.Flags(), args)
		if err != nil {
			return exit.Misuse(err)
		}
		var made struct {
			ID string `json:"evaluation_id"`
		}
		data, err := c.Post(ctx, "/evaluations", body, o.key, &made)
		if err != nil {
			return err
		}
		if output == "table" {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), made.ID); err != nil {
				return fmt.Errorf("%s was submitted, but its id could not be printed: %w", made.ID, err)
			}
		} else if !o.wait {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		if !o.wait {
			return nil
		}
		return awaitEvaluation(ctx, c, cmd, output, made.ID)
	})
	o.bind(cmd)
	return cmd
}

func (o *evaluateOptions) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "YAML or JSON file with an evaluation as in POST /evaluations; flags override it")
	f.StringArrayVar(&o.benchmarks, "benchmark", nil, "benchmark to run, and how many of its samples (default: all); repeatable")
	f.StringArrayVar(&o.datasets, "dataset", nil, "BENCHMARK=URI: dataset to use for a benchmark; repeatable")
	f.StringArrayVar(&o.parameters, "param", nil, "KEY=VALUE for all benchmarks, such as temperature=0.0; repeatable")
	f.StringVar(&o.checkpoint, "checkpoint", "", "checkpoint of the job to score (default: the newest)")
	_ = cmd.RegisterFlagCompletionFunc("checkpoint", jobs.CompleteCheckpointsOf) // fails only for an unknown flag, or if called twice
	f.StringVar(&o.model, "model", "", "location of the job's model, if it is not in a checkpoint")
	f.StringVar(&o.name, "name", "", "name of the evaluation (default: made from what is scored)")
	f.IntVar(&o.gpus, "gpus", 1, "GPUs; 0 for none")
	f.Float64Var(&o.fraction, "gpu-fraction", 0, "part of one GPU, such as 0.25")
	f.StringVar(&o.gpuType, "gpu-type", "", "type of the GPUs, such as H100")
	f.IntVar(&o.cpus, "cpus", 0, "CPUs")
	f.StringVar(&o.memory, "memory", "", "memory, such as 64Gi")
	f.StringArrayVar(&o.selector, "node-selector", nil, "only nodes with this label KEY=VALUE, such as those that hold the checkpoint; repeatable")
	f.StringVar(&o.queue, "queue", "", "queue (default: default)")
	f.IntVar(&o.priority, "priority", 5, "0 to 10; 10 goes first")
	f.IntVar(&o.retries, "max-retries", 0, "restarts after its own process failed; restarts after a lost node or a failed GPU do not count")
	f.StringSliceVar(&o.retryOn, "retry-on", nil, "restart only after these: node_lost, gpu_fault, launch_failed, data_fetch, exit (default: all)")
	f.DurationVar(&o.timeLimit, "time-limit", 0, "stop the evaluation after this time, such as 2h")
	f.BoolVar(&o.pending, "allow-pending-capacity", false, "let it wait even if it exceeds the nodes, the queue's limit or the quota of today")
	f.StringArrayVar(&o.labels, "label", nil, "label KEY=VALUE; repeatable")
	f.StringVar(&o.key, "idempotency-key", "", "a second submit with the same key returns the first one's evaluation")
	f.BoolVar(&o.wait, "wait", false, "wait for the end, print the results and exit as the workload did")
}

// request builds the body of POST /evaluations.
func (o *evaluateOptions) request(flags *pflag.FlagSet, args []string) (map[string]any, error) {
	body := request.Object{}
	if o.file != "" {
		var err error
		if body, err = request.Read(o.file); err != nil {
			return nil, err
		}
	}
	switch {
	case len(args) == 1 && strings.HasPrefix(args[0], "job_"):
		body["job_id"] = args[0]
	case len(args) == 1:
		body["model_uri"] = args[0]
	case o.file == "":
		return nil, errors.New("there is nothing to score: name a job or a model, or a file with -f")
	}
	var faults []error
	set := func(flag string, into map[string]any, field string, value func() (any, error)) {
		if !flags.Changed(flag) {
			return
		}
		v, err := value()
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
			return
		}
		into[field] = v
	}
	set("name", body, "name", request.Just(o.name))
	set("checkpoint", body, "checkpoint_id", request.Just(o.checkpoint))
	set("model", body, "model_uri", request.Just(o.model))
	set("label", body, "labels", func() (any, error) { return settings.Pairs(o.labels) })
	set("benchmark", body, "benchmarks", o.scoredBy)
	if _, given := body["benchmarks"]; !given && len(faults) == 0 {
		faults = append(faults, errors.New("give a benchmark, such as --benchmark mmlu:100"))
	}
	if (flags.Changed("dataset") || flags.Changed("param")) && !flags.Changed("benchmark") {
		faults = append(faults, errors.New("--dataset and --param need --benchmark"))
	}
	resources := map[string]any{}
	set("gpus", resources, "gpu_count", request.Just(o.gpus))
	set("gpu-fraction", resources, "gpu_fraction", request.Just(o.fraction))
	set("gpu-type", resources, "gpu_type", request.Just(o.gpuType))
	set("cpus", resources, "cpu_count", request.Just(o.cpus))
	set("memory", resources, "memory_mb", func() (any, error) { return request.Mebibytes(o.memory) })
	set("node-selector", resources, "node_selector", func() (any, error) { return settings.Pairs(o.selector) })
	if len(resources) > 0 {
		into := body.In("resource_config")
		if len(into) == 0 && !flags.Changed("gpu-fraction") {
			into["gpu_count"] = o.gpus // if other resources are set, the gateway uses 0 for a missing GPU count
		}
		for field, v := range resources {
			into[field] = v
		}
	}
	for _, flag := range []string{"queue", "priority", "max-retries", "retry-on", "time-limit", "allow-pending-capacity"} {
		if flags.Changed(flag) {
			scheduling := body.In("scheduling_config")
			set("queue", scheduling, "queue", request.Just(o.queue))
			set("priority", scheduling, "priority", request.Just(o.priority))
			set("max-retries", scheduling, "max_retries", request.Just(o.retries))
			set("retry-on", scheduling, "retry_on", request.Just(o.retryOn))
			set("time-limit", scheduling, "max_runtime_seconds", request.Seconds(o.timeLimit))
			set("allow-pending-capacity", scheduling, "allow_pending_capacity", request.Just(o.pending))
			break
		}
	}
	if len(faults) == 0 {
		return body, request.CheckUTF8(map[string]any(body), "")
	}
	return body, errors.Join(faults...)
}

// scoredBy parses the benchmarks; digits after the last colon are the number of samples.
func (o *evaluateOptions) scoredBy() (any, error) {
	datasets, err := settings.Pairs(o.datasets)
	if err != nil {
		return nil, fmt.Errorf("--dataset: %w", err)
	}
	parameters, err := settings.Pairs(o.parameters)
	if err != nil {
		return nil, fmt.Errorf("--param: %w", err)
	}
	var all []map[string]any
	for _, text := range o.benchmarks {
		one := map[string]any{"name": text}
		if at := strings.LastIndexByte(text, ':'); at >= 0 {
			if n, err := strconv.ParseInt(text[at+1:], 10, 32); err == nil {
				one["name"], one["num_samples"] = text[:at], n
			}
		}
		if uri, ok := datasets[one["name"].(string)]; ok {
			one["dataset"] = uri
			delete(datasets, one["name"].(string))
		}
		if len(parameters) > 0 {
			one["parameters"] = parameters
		}
		all = append(all, one)
	}
	for name := range datasets {
		return nil, fmt.Errorf("--dataset %s=...: there is no --benchmark %s", name, name)
	}
	return all, nil
}

// awaitEvaluation waits for the end, shows the results, and returns how the evaluation ended.
func awaitEvaluation(ctx context.Context, c *rest.Client, cmd *cobra.Command, output string, id string) error {
	path := "/evaluations/" + url.PathEscape(id)
	workload := ""
	e, data, err := rest.Poll(ctx, c, path, func(e *evaluation) (bool, error) {
		workload = e.Workload
		return e.workload().Over(), nil
	})
	if errors.Is(err, context.Canceled) {
		return exit.Interrupted(fmt.Sprintf("stopped watching; the evaluation goes on: `mind evaluation %s` shows it, `mind cancel %s` ends it", id, workload))
	}
	if err != nil {
		return err
	}
	if output != "table" {
		if err := render.Data(cmd.OutOrStdout(), output, data); err != nil {
			return err
		}
	} else if err := e.resultTable(cmd.OutOrStdout()); err != nil {
		return err
	}
	if err := e.exit(ctx, c); err != nil {
		return err
	}
	if lacking := e.lacking(); len(lacking) > 0 {
		return fmt.Errorf("%s has no results for %s: see `mind logs %s`", id, strings.Join(lacking, ", "), e.Workload)
	}
	return nil
}

// exit returns how the workload ended. Only callers who may see jobs get its exit code.
func (e *evaluation) exit(ctx context.Context, c *rest.Client) error {
	j := e.workload()
	if j.Status == "FAILED" {
		var seen jobs.Job
		if _, err := c.Get(ctx, "/jobs/"+url.PathEscape(e.Workload), nil, &seen); err == nil {
			j = &seen
		}
	}
	return j.Exit()
}
