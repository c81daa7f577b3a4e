// Package simulate implements `mind simulate`: it simulates the scheduler with a trace of jobs, under one policy or
// several.
package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/simulate"
	"github.com/mindcoordinator/mind/simulate/history"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// options are the flags.
type options struct {
	inventory, trace, format, nodes, output string
	policies                                []string
	seeds                                   []uint
	until                                   float64
	limits                                  string
	fromCluster                             bool
	save                                    string
	source                                  Source
}

// results are the results in JSON.
type results struct {
	History *history.About      `json:"history,omitempty"`
	Runs    []simulate.Measures `json:"runs"`
}

// Command returns `mind simulate`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "simulate {--trace JOBS.csv | --from-cluster}",
		Short: "Run the scheduler over a trace of jobs or the history of a cluster, in virtual time",
		Long: `Runs the scheduler of this version over a list of jobs and an inventory of nodes, in virtual time, and says how long jobs
waited, how full the cluster was, and how fair it was.

With --trace, jobs come from a file: no cluster is needed or touched.

With --from-cluster, they are those that your cluster still knows (finished, running and waiting, of all tenants), with its nodes,
queues, weights, quotas and limits as they are now; --since bounds it. The policy in force comes first, beside those of
--policy, which keep of it what they do not name. Nothing is changed. It takes an operator's certificate: --coordinators,
--cert, --key and --ca, or the dev.json of a ` + "`mind dev`" + ` (MIND_DEV, or the current context). The whole state of the cluster is read, and
the audit log says so (snapshot.save). How long jobs will take that are not over is predicted as the scheduler predicts it.

Formats (--format; without it the header of the trace decides):
  philly  job_id, user, num_gpu, submit_time, duration, in minutes. Jobs arrive and run as they did. Jobs without GPUs are
          left out; those of more than 8 take whole nodes. Nodes: --nodes.
  openb   name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec. Tasks arrive one by one and never leave, in an order
          drawn from --seed, with copies up to 1.3 times the GPUs; what fits nowhere is dropped. The GPU allocation is
          measured when they demand --until-demand of all GPUs. Nodes: --inventory, with sn, cpu_milli, memory_mib, gpu, model.

Policies (--policy, repeatable: they are shown side by side):
  fifo        the oldest job first; what does not fit is skipped; nothing is preempted
  easy        as fifo, and the first job that does not fit is promised a start that no other one delays (EASY backfill)
  conservative  the same for the first 64 jobs
  shortest    the job first that is predicted to need the least GPU time; nothing is preempted
  attained    the job first that has had the least GPU time; preempts; nothing is predicted
  preemptive  as shortest, and jobs are preempted for those that need much less
  default     what a cluster uses whose operator has set nothing: as attained
All but fifo, easy and conservative let jobs rise in priority while they wait. Starts are promised only where jobs have
limits (--limits): a cluster does so for the first 8 jobs that have waited for 10 minutes.

A job that is preempted pays: 5 minutes for each restart, and its work since its last checkpoint (one every 30 minutes of
work). Its wait is its time from submission to end without its duration. Durations are told to no policy: predictions come
from the jobs of the trace that have ended before.`,
		Example: `  mind simulate --from-cluster --since 30d
  mind simulate --from-cluster --policy fifo --policy easy -o svg > policies.svg
  mind simulate --trace philly_jobs.csv --nodes 140x8 --policy fifo --policy preemptive
  mind simulate --trace philly_jobs.csv --policy fifo --policy preemptive -o svg > waits.svg
  mind simulate --inventory nodes.csv --trace pods.csv --format openb --seed 42 --seed 43 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkSource(cmd.Flags()); err != nil {
				return err
			}
			res, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			switch o.output {
			case "table":
				o.printNotes(cmd.OutOrStdout(), &res)
				return printTable(cmd.OutOrStdout(), res.Runs)
			case "svg":
				o.printNotes(cmd.ErrOrStderr(), &res)
				return drawSVG(cmd.OutOrStdout(), res.Runs)
			}
			return render.Value(cmd.OutOrStdout(), o.output, res)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.trace, "trace", "", "CSV file of the jobs")
	f.StringVar(&o.inventory, "inventory", "", "CSV file of the nodes (sn, cpu_milli, memory_mib, gpu, model)")
	f.StringVar(&o.nodes, "nodes", "140x8", "nodes and GPUs of each, instead of an inventory; philly only")
	f.StringVar(&o.format, "format", "", "openb or philly (default: as the header of the trace says)")
	f.StringArrayVar(&o.policies, "policy", nil, "policy: "+strings.Join(simulate.Policies(), ", ")+" (default: all, side by side)")
	f.UintSliceVar(&o.seeds, "seed", []uint{42}, "seed of the order of arrival; openb only")
	f.Float64Var(&o.until, "until-demand", 1, "measure when this part of all GPUs is demanded, up to 1.3; openb only")
	f.StringVar(&o.limits, "limits", "", "give each job a time limit, so many times too long as is drawn from this range, such as 1.5-10; philly only")
	f.StringVarP(&o.output, "output", "o", "table", "output format: table, json, yaml or svg")
	f.BoolVar(&o.fromCluster, "from-cluster", false, "take the jobs and nodes from the cluster's own history")
	f.StringVar(&o.save, "save", "", "also write the jobs of the cluster to this file, as a trace in the format philly")
	o.source.Bind(cmd)
	return cmd
}

func (o *options) check() error {
	if o.output != "svg" {
		if render.CheckOutput(o.output) != nil {
			return exit.Misuse(fmt.Errorf("-o %s: it must be table, json, yaml or svg", o.output))
		}
	}
	for _, name := range o.policies {
		if _, ok := simulate.Policy(name); !ok {
			return exit.Misuse(fmt.Errorf("--policy %s: it must be %s", name, strings.Join(simulate.Policies(), ", ")))
		}
	}
	if _, _, err := o.limit(); err != nil {
		return err
	}
	switch {
	case o.format != "" && o.format != "openb" && o.format != "philly":
		return exit.Misuse(fmt.Errorf("--format %s: it must be openb or philly", o.format))
	case !(o.until > 0 && o.until <= 1.3):
		return exit.Misuse(fmt.Errorf("--until-demand %v: it must be above 0 and at most 1.3", o.until))
	}
	return nil
}

func (o *options) run(ctx context.Context, stderr io.Writer) (results, error) {
	if err := o.check(); err != nil {
		return results{}, err
	}
	if o.fromCluster {
		return o.runCluster(ctx, stderr)
	}
	nodes, jobs, err := o.read()
	if err != nil {
		return results{}, err
	}
	if least, most, _ := o.limit(); o.limits != "" {
		if o.format == "openb" {
			return results{}, exit.Misuse(errors.New("--limits needs jobs that end: the tasks of the format openb never leave"))
		}
		simulate.Limit(jobs, least, most, uint64(o.seeds[0]))
	}
	if len(o.policies) == 0 {
		o.policies = simulate.Policies()
	}
	if n, why := (simulate.Cluster{Nodes: nodes}).TooLarge(jobs); o.format == "philly" && n > 0 && n < len(jobs) {
		fmt.Fprintf(stderr, "dropped: %d of %d jobs are too large for the inventory (%s)\n", n, len(jobs), why)
	}
	res := results{Runs: []simulate.Measures{}}
	for _, name := range o.policies {
		policy, _ := simulate.Policy(name)
		for _, seed := range o.seeds {
			say := progress(stderr, name, len(jobs))
			var m simulate.Measures
			if o.format == "openb" {
				m, err = simulate.Inflate(ctx, nodes, jobs, policy, uint64(seed), o.until, say)
			} else {
				m, err = simulate.Run(ctx, simulate.Cluster{Nodes: nodes}, jobs, policy, say)
			}
			if err != nil {
				return res, err
			}
			m.Policy, m.Seed = name, uint64(seed)
			res.Runs = append(res.Runs, m)
			if o.format == "philly" {
				break // no random numbers are used
			}
		}
	}
	return res, nil
}

// limit returns the range of --limits.
func (o *options) limit() (least, most float64, err error) {
	if o.limits == "" {
		return 0, 0, nil
	}
	low, high, ranged := strings.Cut(o.limits, "-")
	if !ranged {
		high = low
	}
	least, err = strconv.ParseFloat(low, 64)
	if err == nil {
		most, err = strconv.ParseFloat(high, 64)
	}
	if err != nil || !(least >= 1 && least <= most && most <= 1000) {
		return 0, 0, exit.Misuse(fmt.Errorf("--limits %s: it must be a range from 1 up, such as 1.5-10, or one number", o.limits))
	}
	return least, most, nil
}

// progress prints the progress of a long run on stderr.
func progress(w io.Writer, policy string, jobs int) func(int) {
	const pause = 5 * time.Second
	said := time.Now()
	return func(done int) {
		if time.Since(said) >= pause {
			said = time.Now()
			fmt.Fprintf(w, "%s: %d of %d jobs\n", policy, done, jobs)
		}
	}
}

// read reads the files.
func (o *options) read() ([]*work.Node, []trace.Job, error) {
	text, err := os.ReadFile(o.trace)
	if err != nil {
		return nil, nil, err
	}
	if o.format == "" {
		header, _, _ := bytes.Cut(text, []byte("\n"))
		switch {
		case bytes.Contains(header, []byte("submit_time")):
			o.format = "philly"
		case bytes.Contains(header, []byte("gpu_milli")):
			o.format = "openb"
		default:
			return nil, nil, exit.Misuse(fmt.Errorf("%s has the header of no known format: say --format openb or philly", o.trace))
		}
	}
	parse := trace.Philly
	if o.format == "openb" {
		parse = trace.OpenBJobs
	}
	jobs, err := parse(bytes.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.trace, err)
	}
	nodes, err := o.readNodes()
	return nodes, jobs, err
}

func (o *options) readNodes() ([]*work.Node, error) {
	switch {
	case o.inventory == "" && o.format == "openb":
		return nil, exit.Misuse(errors.New("the format openb needs --inventory: a CSV file with sn, cpu_milli, memory_mib, gpu, model"))
	case o.inventory != "":
		f, err := os.Open(o.inventory)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		nodes, err := trace.OpenBNodes(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.inventory, err)
		}
		return nodes, nil
	}
	count, gpus, ok := strings.Cut(o.nodes, "x")
	n, err := strconv.Atoi(count)
	g, err2 := strconv.Atoi(gpus)
	if !ok || err != nil || err2 != nil || n < 1 || n > 100_000 || g < 1 || g > work.MaxGPUs {
		return nil, exit.Misuse(fmt.Errorf("--nodes %s: it must be nodes x GPUs of each, such as 140x8", o.nodes))
	}
	var nodes []*work.Node
	for i := range n {
		node, err := trace.Node(fmt.Sprintf("n%05d", i), g, "GPU", 0, 0)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
