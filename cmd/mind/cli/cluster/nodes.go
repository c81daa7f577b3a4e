package cluster

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

type node struct {
	ID       string            `json:"node_id"`
	State    string            `json:"state"`
	Reason   string            `json:"reason"`
	GPUs     []gpu             `json:"gpus"`
	Free     int               `json:"gpus_free"`
	CPUs     int               `json:"cpu_count"`
	MemoryMB int64             `json:"memory_mb"`
	Labels   map[string]string `json:"labels"`
	Domains  []domain          `json:"domains"`
	Version  string            `json:"agent_version"`
	LastSeen *time.Time        `json:"last_seen_at"`
	Tasks    int               `json:"tasks"`
	// AwaySince is since when the node is UNREACHABLE or LOST, Deadline until when a drain lets its tasks run.
	AwaySince *time.Time `json:"unreachable_since"`
	Deadline  *time.Time `json:"drain_deadline"`
}

type domain struct {
	Level string `json:"level"`
	Name  string `json:"name"`
}

// in formats the domains of a node, innermost first: "leaf l3, spine s1".
func (n *node) in() string {
	var in []string
	for _, d := range n.Domains {
		in = append(in, d.Level+" "+d.Name)
	}
	return strings.Join(in, ", ")
}

type gpu struct {
	Index     int    `json:"index"`
	Type      string `json:"gpu_type"`
	Health    string `json:"health"`
	Reason    string `json:"health_reason"`
	Simulated bool   `json:"simulated"`
	Job       string `json:"job_id"`
	MemoryMB  int64  `json:"memory_mb"`
	// nil: unknown, or hidden from this caller.
	Utilization  *float64 `json:"utilization"`
	MemoryUsedMB *int64   `json:"memory_used_mb"`
}

// measured reports whether the utilization is known. A simulated GPU has none, unless the file with its simulated
// faults sets one.
func (g *gpu) measured() bool {
	return g.Utilization != nil && (!g.Simulated || *g.Utilization > 0)
}

// percent formats the utilization of a GPU.
func percent(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", *ratio*100)
}

// memory formats memory, such as "39.1 GiB of 79.6 GiB".
func (g *gpu) memory() string {
	if g.MemoryUsedMB == nil || g.Simulated && *g.MemoryUsedMB == 0 {
		return "-"
	}
	return render.Size(*g.MemoryUsedMB<<20) + " of " + render.Size(g.MemoryMB<<20)
}

// busy returns the mean utilization of the GPUs for which it is known.
func busy(gpus []gpu) *float64 {
	sum, known := 0.0, 0
	for _, g := range gpus {
		if g.measured() {
			sum += *g.Utilization
			known++
		}
	}
	if known == 0 {
		return nil
	}
	mean := sum / float64(known)
	return &mean
}

func newNodes() *cobra.Command {
	var training bool
	cmd := rest.Command(&cobra.Command{
		Use:   "nodes [NODE]",
		Short: "List the nodes and their GPUs",
		Long: `Lists the nodes and their GPUs: which nodes are unreachable and since when, which are being drained, and which GPUs are out of
service and why. With the id of a node, lists its GPUs.

BUSY is the recent utilization of the GPUs, as reported by their drivers; FREE is the number of GPUs that no job holds.
Without the permission scaimind:cluster_admin, BUSY is shown only for GPUs that jobs of your tenant hold; - means unknown.
Simulated GPUs have no sensors. DOMAINS is where a node is in the network, if its labels say it.

--training shows which training types run with which frameworks, and what to install for the others: it asks each node's
Python, which takes a few seconds.`,
		Example: `  mind nodes
  mind nodes n1 --training
  mind nodes n1 -o yaml`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeNodes,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got struct {
			Nodes []node `json:"nodes"`
		}
		path, into := "/cluster/nodes", any(&got)
		if len(args) == 1 {
			got.Nodes = make([]node, 1)
			path, into = path+"/"+url.PathEscape(args[0]), any(&got.Nodes[0])
		}
		data, err := c.Get(ctx, path, nil, into)
		if err != nil {
			return err
		}
		if training {
			return showTraining(ctx, cmd, c, output, got.Nodes)
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		if err := nodeTable(cmd.OutOrStdout(), got.Nodes, render.Width(cmd.OutOrStdout())); err != nil || len(args) == 0 {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout())
		return gpuTable(cmd.OutOrStdout(), got.Nodes[0].GPUs, render.Width(cmd.OutOrStdout()))
	})
	cmd.Flags().BoolVar(&training, "training", false, "show what the nodes can train")
	return cmd
}

// nodeTable lists nodes within a width in columns of the terminal; 0: any width.
func nodeTable(w io.Writer, nodes []node, width int) error {
	head := []string{"NODE", "STATE", "GPUS", "FREE", "BUSY", "CPUS", "MEMORY", "TASKS", "SEEN", "VERSION"}
	grouped := slices.ContainsFunc(nodes, func(n node) bool { return len(n.Domains) > 0 })
	if grouped {
		head = append(head, "DOMAINS")
	}
	t := render.NewTable(w, append(head, "REASON")...).Fit(width, "VERSION", "CPUS", "MEMORY", "SEEN")
	for _, n := range nodes {
		seen := render.Ago(n.LastSeen)
		if seen == "" {
			seen = render.Ago(n.AwaySince)
		}
		if seen != "" {
			seen += " ago"
		}
		row := []string{n.ID, n.State, n.gpus(), strconv.Itoa(n.Free), percent(busy(n.GPUs)), strconv.Itoa(n.CPUs), render.Size(n.MemoryMB << 20), strconv.Itoa(n.Tasks), seen, n.Version}
		if grouped {
			row = append(row, n.in())
		}
		t.Row(append(row, n.why())...)
	}
	return t.Flush()
}

func gpuTable(w io.Writer, gpus []gpu, width int) error {
	t := render.NewTable(w, "GPU", "TYPE", "HEALTH", "BUSY", "MEMORY", "JOB", "REASON").Fit(width)
	for _, g := range gpus {
		t.Row(strconv.Itoa(g.Index), g.Type, g.Health, percent(busy([]gpu{g})), g.memory(), g.Job, g.Reason)
	}
	return t.Flush()
}

// maxIll is the number of unhealthy GPUs that the row of a node lists.
const maxIll = 3

// why returns the reason why a node is not simply ready.
func (n *node) why() string {
	var parts []string
	if n.AwaySince != nil {
		parts = append(parts, "since "+render.Time(*n.AwaySince))
	}
	if n.Reason != "" {
		parts = append(parts, n.Reason)
	}
	if n.State == "DRAINING" && n.Deadline != nil {
		parts = append(parts, "remaining tasks are stopped at "+render.Clock(*n.Deadline))
	}
	ill := 0
	for _, g := range n.GPUs {
		if g.Health == "" || g.Health == "HEALTHY" {
			continue
		}
		if ill++; ill <= maxIll {
			parts = append(parts, fmt.Sprintf("GPU %d %s%s", g.Index, g.Health, render.Because(g.Reason)))
		}
	}
	if ill > maxIll {
		parts = append(parts, fmt.Sprintf("and %d more GPUs: see `mind nodes %s`", ill-maxIll, n.ID))
	}
	return strings.Join(parts, "; ")
}

// gpus formats GPUs, such as "8xH100 (simulated)".
func (n *node) gpus() string {
	count, ill, simulated := map[string]int{}, 0, ""
	for _, g := range n.GPUs {
		count[g.Type]++
		if g.Health != "" && g.Health != "HEALTHY" {
			ill++
		}
		if g.Simulated {
			simulated = " (simulated)"
		}
	}
	if len(count) == 0 {
		return "-"
	}
	var parts []string
	for kind, n := range count {
		parts = append(parts, fmt.Sprintf("%dx%s", n, kind))
	}
	sort.Strings(parts)
	text := strings.Join(parts, ",") + simulated
	if ill > 0 {
		text += fmt.Sprintf(" (%d unhealthy)", ill)
	}
	return text
}

// completeNodes completes ids of nodes.
func completeNodes(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, args, "/cluster/nodes", "nodes", "node_id", "state")
}
