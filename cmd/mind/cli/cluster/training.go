package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// maxAsked limits how many nodes are asked at the same time.
const maxAsked = 16

// training describes which trainings can run on a node.
type training struct {
	Node     string            `json:"node_id"`
	Problem  string            `json:"problem"`
	Pending  bool              `json:"pending"`
	Python   string            `json:"python"`
	Versions map[string]string `json:"versions"`
	Cells    []struct {
		Type      string `json:"training_type"`
		Framework string `json:"framework"`
		Works     bool   `json:"works"`
		Why       string `json:"why"`
		Install   string `json:"install"`
	} `json:"cells"`
}

// showTraining asks the nodes which trainings can run on them, and shows the answers.
func showTraining(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, nodes []node) error {
	found, all := make([]training, len(nodes)), make([]json.RawMessage, len(nodes))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxAsked)
	for i, n := range nodes {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			data, err := askTraining(ctx, c, n.ID, &found[i])
			if err != nil {
				found[i] = training{Problem: err.Error()}
				data, _ = json.Marshal(map[string]string{"node_id": n.ID, "problem": err.Error()})
			}
			found[i].Node, all[i] = n.ID, data
		})
	}
	wg.Wait()
	if output != "table" {
		data, err := json.Marshal(map[string]any{"nodes": all})
		if err != nil {
			return err
		}
		return render.Data(cmd.OutOrStdout(), output, data)
	}
	return trainingTable(cmd.OutOrStdout(), found)
}

const (
	// trainingPatience is how long a node is asked while it is still checking, and trainingPause the pause between two
	// requests.
	trainingPatience = 2 * time.Minute
	trainingPause    = time.Second
)

// askTraining asks a node until it has finished its check.
func askTraining(ctx context.Context, c *rest.Client, node string, into *training) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, trainingPatience)
	defer cancel()
	for {
		*into = training{}
		data, err := c.Get(ctx, "/cluster/nodes/"+url.PathEscape(node)+"/training", nil, into)
		if err != nil || !into.Pending {
			return data, err
		}
		wait.For(ctx, trainingPause)
		if ctx.Err() != nil {
			return data, nil // the answer says that the node is still checking
		}
	}
}

// trainingTable writes a row for each training type of a node, with the missing parts below it.
func trainingTable(w io.Writer, nodes []training) error {
	frameworks := []string{"HF_TRAINER", "FSDP", "DEEPSPEED", "MEGATRON", "EVALUATION"}
	t := render.NewTable(w, append([]string{"NODE", "TYPE"}, frameworks...)...)
	reasons := map[string][]string{}
	for _, n := range nodes {
		if n.Problem != "" {
			reasons[n.Problem] = append(reasons[n.Problem], n.Node)
			continue
		}
		rows := map[string]map[string]string{}
		var types []string
		for _, cell := range n.Cells {
			if rows[cell.Type] == nil {
				rows[cell.Type] = map[string]string{}
				types = append(types, cell.Type)
			}
			rows[cell.Type][cell.Framework] = map[bool]string{true: "yes", false: "no"}[cell.Works]
			if !cell.Works {
				why := cell.Why
				if cell.Install != "" {
					why += ": " + cell.Install
				}
				reasons[why] = append(reasons[why], n.Node+" "+cell.Type+" "+cell.Framework)
			}
		}
		for _, kind := range types {
			row := []string{n.Node, kind}
			for _, framework := range frameworks {
				row = append(row, cmp.Or(rows[kind][framework], "-"))
			}
			t.Row(row...)
		}
	}
	if err := t.Flush(); err != nil || len(reasons) == 0 {
		return err
	}
	fmt.Fprintln(w)
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(w, "%s\n  (%s)\n", why, strings.Join(reasons[why], ", "))
	}
	return nil
}
