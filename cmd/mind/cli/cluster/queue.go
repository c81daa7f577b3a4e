package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newQueue() *cobra.Command {
	var limit int
	cmd := rest.Command(&cobra.Command{
		Use:   "queue [QUEUE]",
		Short: "Show waiting jobs and why they wait",
		Long: `Shows the waiting jobs of your tenant by priority and age, with the reason why they wait. POS is how many jobs of the queue, of
all tenants, have a higher priority, or the same and are older, plus one. Fair share may let a job start before such a job of a
user who has had more. A job that is held back until a time or until another job ends has no place and is only counted.

STARTS IN is an estimate of the earliest start. It is computed from your own jobs ahead: their progress, how long jobs of the
same name took, or their limits (--time-limit). Jobs of other tenants are not taken into account. It is empty if none of your
jobs is in the way, or if it is unknown how long they take.`,
		Example: `  mind queue
  mind queue research --limit 20`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeQueues,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if len(args) == 1 {
			query.Set("queue", args[0])
		}
		var got waitingJobs
		data, err := c.Get(ctx, "/queue", query, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		if err := got.table(cmd.OutOrStdout(), 0); err != nil {
			return err
		}
		if got.Depth > len(got.Jobs) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d jobs are waiting in total\n", got.Depth)
		}
		if got.Held > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "held back: %d (`mind jobs --status QUEUED` says until when)\n", got.Held)
		}
		return nil
	})
	cmd.Flags().IntVar(&limit, "limit", 100, "number of jobs to show, from the head of the queue")
	return cmd
}

// waitingJobs is the answer of GET /queue.
type waitingJobs struct {
	Depth int `json:"depth"`
	Held  int `json:"held"`
	Jobs  []struct {
		ID        string     `json:"job_id"`
		Name      string     `json:"name"`
		Queue     string     `json:"queue"`
		Position  int        `json:"position"`
		Priority  int        `json:"priority"`
		GPUs      int        `json:"gpu_count"`
		GPUType   string     `json:"gpu_type"`
		Reason    string     `json:"reason"`
		CreatedAt *time.Time `json:"created_at"`
		Wait      *float64   `json:"estimated_wait_seconds"`
	} `json:"jobs"`
}

func (q *waitingJobs) table(w io.Writer, width int) error {
	t := render.NewTable(w, "POS", "JOB", "NAME", "QUEUE", "PRIO", "GPUS", "AGE", "STARTS IN", "REASON").Fit(width, "PRIO", "QUEUE")
	for _, j := range q.Jobs {
		wait := ""
		if j.Wait != nil {
			wait = "~" + render.Duration(time.Duration(*j.Wait*float64(time.Second)))
		}
		gpus := strconv.Itoa(j.GPUs)
		if j.GPUType != "" {
			gpus += "x" + j.GPUType
		}
		t.Row(strconv.Itoa(j.Position), j.ID, j.Name, j.Queue, strconv.Itoa(j.Priority), gpus, render.Ago(j.CreatedAt), wait, j.Reason)
	}
	return t.Flush()
}

// queue is a queue, with the jobs of the caller's tenant.
type queue struct {
	Name    string  `json:"name"`
	Parent  string  `json:"parent"`
	Weight  int     `json:"weight"`
	Share   float64 `json:"share_percent"`
	Queued  int     `json:"queued"`
	Held    int     `json:"held"`
	Running int     `json:"running"`
	GPUs    int     `json:"gpus_allocated"`
	Lately  float64 `json:"gpus_lately"`
	MaxGPUs int     `json:"max_gpus"`

	MaxByType  byType   `json:"max_gpus_by_type"`
	Guaranteed int      `json:"guaranteed_gpus"`
	Borrowed   *float64 `json:"borrowed_gpus"`
	Warning    string   `json:"warning"`
}

var queuesVerbs = rest.Verbs{newQueuesPut, newQueuesDelete}

func newQueues() *cobra.Command {
	cmd := rest.Command(&cobra.Command{
		Use:   "queues",
		Short: "List, create, change and delete queues",
		Long: `Lists the queues as a tree, with the jobs and GPUs of your tenant in each.

SHARE is a queue's share of the cluster while all queues have work: its weight relative to the queues with the same parent, times
the share of the parent. A queue may have more while others have no work. LATELY is the mean number of GPUs that your tenant held
in it lately, in which use counts half after half_life_seconds (mind policy show): fair share considers it together with the GPUs
that are held now. GUARANTEED are the GPUs that a queue gets back from others when it has work, and BORROWED the GPUs that its
jobs hold beyond that, over all tenants; only operators see these two.`,
		Example: `  mind queues
  mind queues put research --weight 2 --max-gpus 64
  mind queues put vision --parent research
  mind queues put prod --guaranteed-gpus 32
  mind queues delete vision`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Queues []queue `json:"queues"`
		}
		data, err := c.Get(ctx, "/queues", nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "QUEUE", "WEIGHT", "SHARE", "QUEUED", "HELD", "RUNNING", "GPUS", "LATELY", "GUARANTEED", "BORROWED", "MAX GPUS")
		eachBelow(got.Queues, "", 0, func(q *queue, depth int) {
			limit := "none"
			if q.MaxGPUs > 0 {
				limit = strconv.Itoa(q.MaxGPUs)
			}
			borrowed := "-"
			if q.Borrowed != nil {
				borrowed = strconv.FormatFloat(*q.Borrowed, 'f', -1, 64)
			}
			if len(q.MaxByType) > 0 {
				limit = strings.TrimPrefix(limit+", "+q.MaxByType.String(), "none, ")
			}
			t.Row(strings.Repeat("  ", depth)+q.Name, strconv.Itoa(q.Weight), strconv.FormatFloat(q.Share, 'f', 1, 64)+"%",
				strconv.Itoa(q.Queued), strconv.Itoa(q.Held), strconv.Itoa(q.Running), strconv.Itoa(q.GPUs),
				strconv.FormatFloat(q.Lately, 'f', 1, 64), strconv.Itoa(q.Guaranteed), borrowed, limit)
		})
		return t.Flush()
	})
	cmd.AddCommand(queuesVerbs.Make()...)
	return cmd
}

// eachBelow calls f for the queues below a parent ("": all), each followed by its own descendants.
func eachBelow(queues []queue, parent string, depth int, f func(q *queue, depth int)) {
	for i := range queues {
		if q := &queues[i]; q.Parent == parent {
			f(q, depth)
			eachBelow(queues, q.Name, depth+1, f)
		}
	}
}

func newQueuesPut() *cobra.Command {
	var weight, maxGPUs, guaranteed int
	var parent string
	var types byType
	cmd := rest.Command(&cobra.Command{
		Use:   "put QUEUE",
		Short: "Create or change a queue",
		Long: `Creates a queue, or replaces the settings of an existing one: a setting that is not given gets its default.

--weight is the share of the queue relative to the queues with the same parent: a queue with weight 3 gets three times as much
as one with weight 1 while both have work.

--parent makes it a part of another queue. Jobs may be in both; those of the parent itself are beside its other queues, with
weight 1.

--max-gpus limits the GPUs that all jobs of the queue and of the queues below it hold together, across tenants. Lowering it stops
no job: the queue starts no job until enough jobs have ended. --max-gpus-by-type does the same for types of GPU.

--guaranteed-gpus is the number of GPUs that the queue gets when it has work; until then others may use them. Then preemptible
jobs of queues that hold more than they are guaranteed give GPUs back, whatever their priority, those of the most saturated queue
first. A job that is not preemptible is never stopped: the GPUs that it has borrowed come back when it ends. The guarantees of
the parts of a queue are limited by the guarantee of the queue.`,
		Example: `  mind queues put research --weight 2
  mind queues put vision --parent research
  mind queues put batch --max-gpus 64
  mind queues put prod --guaranteed-gpus 32 --max-gpus-by-type H100=16`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeQueues,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		if weight < 1 {
			return exit.Misuse(fmt.Errorf("--weight %d: it must be 1 or more; to keep jobs from a queue, limit its GPUs or delete it", weight))
		}
		body := map[string]any{"max_gpus": maxGPUs, "weight": weight, "parent": parent}
		if guaranteed != 0 {
			body["guaranteed_gpus"] = guaranteed
		}
		if len(types) > 0 {
			body["max_gpus_by_type"] = types
		}
		var got queue
		data, err := c.Call(ctx, http.MethodPut, "/queues/"+url.PathEscape(args[0]), nil, body, rest.NewKey(), &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		limit := "any number of GPUs"
		if maxGPUs > 0 {
			limit = fmt.Sprintf("at most %d GPUs", maxGPUs)
		}
		if len(got.MaxByType) > 0 {
			limit += ", by type " + got.MaxByType.String() + ","
		}
		if got.Warning != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", got.Warning)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the jobs of queue %s may hold %s together; %s%% of the cluster is its due\n",
			args[0], limit, strconv.FormatFloat(got.Share, 'f', 1, 64))
		return err
	})
	cmd.Flags().IntVar(&weight, "weight", 1, "what is its due beside the queues with the same parent")
	cmd.Flags().IntVar(&guaranteed, "guaranteed-gpus", 0, "number of GPUs that it gets back from borrowers when it has work")
	cmd.Flags().Var(&types, "max-gpus-by-type", "number of GPUs of each type that its jobs and those of the queues below it may hold together, as H100=16,A100=64")
	cmd.Flags().StringVar(&parent, "parent", "", "queue that it is a part of")
	cmd.Flags().IntVar(&maxGPUs, "max-gpus", 0, "number of GPUs that its jobs and those of the queues below it may hold together; 0: no limit")
	return cmd
}

func newQueuesDelete() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:               "delete QUEUE",
		Short:             "Delete a queue without unfinished jobs",
		Example:           `  mind queues delete research`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeQueues,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		data, err := c.Call(ctx, http.MethodDelete, "/queues/"+url.PathEscape(args[0]), nil, nil, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s deleted\n", args[0])
		return nil
	})
}

// completeQueues completes names of queues.
func completeQueues(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, args, "/queues", "queues", "name", "")
}
