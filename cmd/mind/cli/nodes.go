package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
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
	Version  string            `json:"agent_version"`
	LastSeen *time.Time        `json:"last_seen_at"`
	Tasks    int               `json:"tasks"`
}

type gpu struct {
	Index     int    `json:"index"`
	Type      string `json:"gpu_type"`
	Health    string `json:"health"`
	Simulated bool   `json:"simulated"`
}

func newNodes() *cobra.Command {
	return rest(&cobra.Command{
		Use:   "nodes [NODE]",
		Short: "List the nodes and their GPUs",
		Example: `  mind nodes
  mind nodes n1 -o yaml`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeNodes,
	}, func(ctx context.Context, cmd *cobra.Command, c *client, s *session, args []string) error {
		var got struct {
			Nodes []node `json:"nodes"`
		}
		path, into := "/cluster/nodes", any(&got)
		if len(args) == 1 {
			got.Nodes = make([]node, 1)
			path, into = path+"/"+url.PathEscape(args[0]), any(&got.Nodes[0])
		}
		data, err := c.get(ctx, path, nil, into)
		if err != nil {
			return err
		}
		if s.output != "table" {
			return printData(cmd.OutOrStdout(), s.output, data)
		}
		return nodeTable(cmd.OutOrStdout(), got.Nodes)
	})
}

func nodeTable(w io.Writer, nodes []node) error {
	t := newTable(w, "NODE", "STATE", "GPUS", "FREE", "CPUS", "MEMORY", "TASKS", "SEEN", "VERSION", "REASON")
	for _, n := range nodes {
		seen := ago(n.LastSeen)
		if seen != "" {
			seen += " ago"
		}
		t.row(n.ID, n.State, n.gpus(), strconv.Itoa(n.Free), strconv.Itoa(n.CPUs), size(n.MemoryMB<<20), strconv.Itoa(n.Tasks), seen, n.Version, n.Reason)
	}
	return t.flush()
}

// gpus is such as "8xH100 (simulated)".
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
		text += fmt.Sprintf(" (%d ill)", ill)
	}
	return text
}

func newDrain() *cobra.Command {
	var force bool
	var deadline time.Duration
	var reason string
	cmd := rest(&cobra.Command{
		Use:   "drain NODE",
		Short: "Give a node nothing new, so that it can be taken away",
		Long:  "Gives a node nothing new. What runs there may finish, unless --force or --deadline says otherwise.",
		Example: `  mind drain n3 --reason "new power supply"
  mind drain n3 --deadline 30m
  mind drain n3 --force`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeNodes,
	}, func(ctx context.Context, cmd *cobra.Command, c *client, s *session, args []string) error {
		body := map[string]any{"force": force}
		if deadline != 0 {
			v, err := seconds(deadline)()
			if err != nil {
				return Misuse(fmt.Errorf("--deadline: %w", err))
			}
			body["deadline_seconds"] = v
		}
		if reason != "" {
			body["reason"] = reason
		}
		return c.nodeAction(ctx, cmd, s, args[0], "drain", body)
	})
	f := cmd.Flags()
	f.BoolVar(&force, "force", false, "stop what runs there now, with its grace period")
	f.DurationVar(&deadline, "deadline", 0, "stop after this time what still runs there, such as 30m")
	f.StringVar(&reason, "reason", "", "why, for those who ask later")
	return cmd
}

func newEnable() *cobra.Command {
	return rest(&cobra.Command{
		Use:     "enable NODE",
		Short:   "Let a drained node work again",
		Example: `  mind enable n3`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeNodes,
	}, func(ctx context.Context, cmd *cobra.Command, c *client, s *session, args []string) error {
		return c.nodeAction(ctx, cmd, s, args[0], "enable", map[string]any{})
	})
}

func (c *client) nodeAction(ctx context.Context, cmd *cobra.Command, s *session, id, action string, body map[string]any) error {
	var n node
	data, err := c.post(ctx, "/cluster/nodes/"+url.PathEscape(id)+"/"+action, body, "", &n)
	if err != nil {
		return err
	}
	if s.output != "table" {
		return printData(cmd.OutOrStdout(), s.output, data)
	}
	running := ""
	if n.Tasks > 0 {
		running = fmt.Sprintf(", %d tasks still run there", n.Tasks)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s%s\n", id, n.State, running)
	return nil
}
