package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

type clusterSummary struct {
	NodesTotal   int            `json:"nodes_total"`
	NodesReady   int            `json:"nodes_ready"`
	GPUsTotal    int            `json:"gpus_total"`
	GPUsHealthy  int            `json:"gpus_healthy"`
	GPUsUsed     int            `json:"gpus_allocated"`
	GPUsBusy     *float64       `json:"gpu_utilization"` // nil: unknown
	Jobs         map[string]int `json:"jobs"`
	Leader       string         `json:"leader"`
	Coordinators []struct {
		ID       string `json:"id"`
		Leader   bool   `json:"leader"`
		Voter    bool   `json:"voter"`
		Liveness string `json:"liveness"`
	} `json:"coordinators"`
}

func newTop() *cobra.Command {
	var every time.Duration
	cmd := rest.Command(&cobra.Command{
		Use:   "top",
		Short: "Watch the cluster: is it well, its GPUs, running and waiting jobs",
		Long: `Shows the cluster and refreshes the display until interrupted: one sentence about how it is, the GPUs of each node, the running jobs, and
the head of the queue with the reasons. If stdout is not a terminal, it shows the cluster once.`,
		Example: `  mind top
  mind top --every 5s`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		w := cmd.OutOrStdout()
		if every <= 0 {
			return exit.Misuse(fmt.Errorf("--every %s: it must be more than 0", every))
		}
		if output != "table" {
			data, err := c.Get(ctx, "/cluster", nil, nil)
			if err != nil {
				return err
			}
			return render.Data(w, output, data)
		}
		if !render.IsTerminal(w) {
			return printTop(ctx, c, w, 0)
		}
		for {
			var page bytes.Buffer
			if err := printTop(ctx, c, &page, render.Width(w)); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				fmt.Fprintln(&page, "mind: "+exit.OneLine(err))
			}
			if err := render.Redraw(w, page.String()); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(every):
			}
		}
	})
	cmd.Flags().DurationVar(&every, "every", time.Second, "pause between refreshes")
	return cmd
}

// jobsInWords formats the number of jobs of each status. The cluster counts them by state.
func jobsInWords(byState map[string]int) string {
	counts := map[string]int{}
	for state, n := range byState {
		word := state
		// HELD is not a state, and RUNNING is shown as one of several statuses.
		if number, ok := v1.JobState_Value_value[state]; ok && state != v1.JobState_RUNNING.String() {
			word = status.Of(v1.JobState_Value(number), v1.JobPhase_UNSPECIFIED, true).String()
		}
		counts[strings.ToLower(word)] += n
	}
	var words []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		if counts[word] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[word], word))
		}
	}
	return strings.Join(words, ", ")
}

// worked formats the utilization of all GPUs according to the gateway, which includes simulated GPUs without sensors.
func worked(mean *float64, nodes []node) string {
	simulated, others := false, false
	for _, n := range nodes {
		for _, g := range n.GPUs {
			simulated, others = simulated || g.Simulated, others || !g.Simulated
		}
	}
	switch {
	case simulated && !others && (mean == nil || *mean == 0):
		return ", simulated ones without sensors"
	case mean == nil:
		return ""
	}
	return ", " + percent(mean) + " busy"
}

// memory formats the memory in use of the GPUs of a job.
func memory(gpus []gpu) string {
	used, all, known := int64(0), int64(0), false
	for _, g := range gpus {
		if g.memory() != "-" {
			used, all, known = used+*g.MemoryUsedMB, all+g.MemoryMB, true
		}
	}
	if !known {
		return "-"
	}
	return render.Size(used<<20) + " of " + render.Size(all<<20)
}

// printTop writes a page within a width in columns of the terminal; 0: any width.
func printTop(ctx context.Context, c *rest.Client, w io.Writer, width int) error {
	var cluster clusterSummary
	if _, err := c.Get(ctx, "/cluster", nil, &cluster); err != nil {
		return err
	}
	var nodes struct {
		Nodes []node `json:"nodes"`
	}
	if _, err := c.Get(ctx, "/cluster/nodes", nil, &nodes); err != nil {
		return err
	}
	running := url.Values{"status": {"SCHEDULING", "PREPARING", "TRAINING", "CHECKPOINTING", "EVALUATING", "EXPORTING"}}
	jobs, _, total, err := jobs.List(ctx, c, running, 20)
	if err != nil {
		return err
	}
	var replicas []string
	for _, r := range cluster.Coordinators {
		text := r.ID
		if r.Leader {
			text += "*"
		}
		if r.Liveness != "alive" && r.Liveness != "" {
			text += " (" + r.Liveness + ")"
		}
		replicas = append(replicas, text)
	}
	extras, err := readExtras(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, sentence(&cluster, extras.replicas))
	fmt.Fprintln(w)
	f := render.NewFacts(w).Fit(width)
	f.Add("coordinators", strings.Join(replicas, " ")+"   (* leader)")
	f.Add("nodes", fmt.Sprintf("%d of %d ready", cluster.NodesReady, cluster.NodesTotal))
	f.Add("gpus", fmt.Sprintf("%d of %d in use%s", cluster.GPUsUsed, cluster.GPUsTotal, worked(cluster.GPUsBusy, nodes.Nodes)))
	f.Add("jobs", jobsInWords(cluster.Jobs))
	if err := f.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	extras.gpus.write(w, width)
	fmt.Fprintln(w)
	if err := nodeTable(w, nodes.Nodes[:min(len(nodes.Nodes), topNodes)], width); err != nil {
		return err
	}
	if more := len(nodes.Nodes) - topNodes; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	fmt.Fprintln(w)
	held := map[string][]gpu{}
	for _, n := range nodes.Nodes {
		for _, g := range n.GPUs {
			held[g.Job] = append(held[g.Job], g)
		}
	}
	t := render.NewTable(w, "JOB", "NAME", "STATUS", "GPUS", "BUSY", "GPU MEMORY", "NODES", "PROGRESS", "AGE").Fit(width, "GPU MEMORY", "BUSY")
	for i := range jobs {
		j := &jobs[i]
		gpus := held[j.ID]
		t.Row(j.ID, j.Name, j.Status, j.GPUsWanted(), percent(busy(gpus)), memory(gpus), strings.Join(j.Nodes, ","), j.Steps(), render.Ago(j.StartedAt))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if total.Total > len(jobs) {
		fmt.Fprintf(w, "and %d more\n", total.Total-len(jobs))
	}
	if len(extras.waiting.Jobs) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	if err := extras.waiting.table(w, width); err != nil {
		return err
	}
	if more := extras.waiting.Depth - len(extras.waiting.Jobs); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	return nil
}

const (
	// topNodes bounds the nodes in the table of `mind top`; the map has more of them.
	topNodes = 40
	// topWaiting bounds the waiting jobs that it shows.
	topWaiting = 8
)

// extras is the part of a page beside nodes and running jobs. A gateway of an older version has less of it.
type extras struct {
	replicas *replicas // nil: unknown
	gpus     gpuMap
	waiting  waitingJobs
}

func readExtras(ctx context.Context, c *rest.Client) (*extras, error) {
	e := &extras{replicas: &replicas{}}
	for path, into := range map[string]any{"/cluster/coordinators": e.replicas, "/cluster/map": &e.gpus, "/queue": &e.waiting} {
		query := url.Values{}
		if path == "/queue" {
			query.Set("limit", strconv.Itoa(topWaiting))
		}
		if _, err := c.Get(ctx, path, query, into); err != nil && !rest.Gone(err) {
			return nil, err
		}
	}
	if len(e.replicas.All) == 0 {
		e.replicas = nil
	}
	return e, nil
}
