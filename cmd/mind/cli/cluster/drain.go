package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// drained is the answer to a drain: the node, and the effect on each job on it.
type drained struct {
	node
	Effects []struct {
		Job         string     `json:"job_id"`
		Name        string     `json:"name"`
		Effect      string     `json:"effect"`
		StopsAt     *time.Time `json:"stops_at"`
		ResumesFrom string     `json:"resumes_from"`
	} `json:"effects"`
}

func newDrain() *cobra.Command {
	var force, dryRun, wait bool
	var deadline time.Duration
	var reason string
	cmd := rest.Command(&cobra.Command{
		Use:   "drain NODE",
		Short: "Place no more tasks on a node, so that it can be taken out of service",
		Long: `Places no more tasks on a node. Running tasks may finish, unless --force or --deadline stops them. A task that is stopped
gets its notice and its grace period; its job goes back to the queue and does not use up a retry. --dry-run shows what would
happen to each job, and changes nothing. --wait returns when the node is empty.`,
		Example: `  mind drain n3 --dry-run --deadline 30m
  mind drain n3 --deadline 30m --wait --reason "new power supply"
  mind drain n3 --force`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeNodes,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body := map[string]any{"force": force}
		if dryRun {
			body["dry_run"] = true
		}
		if dryRun && wait {
			return exit.Misuse(errors.New("--dry-run starts no drain, so there is nothing to wait for: give either --dry-run or --wait"))
		}
		if deadline != 0 {
			v, err := request.Seconds(deadline)()
			if err != nil {
				return exit.Misuse(fmt.Errorf("--deadline: %w", err))
			}
			body["deadline_seconds"] = v
		}
		if reason != "" {
			body["reason"] = reason
		}
		var got drained
		data, err := c.Post(ctx, "/cluster/nodes/"+url.PathEscape(args[0])+"/drain", body, "", &got)
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		switch {
		case wait:
			err := awaitDrained(ctx, c, cmd, output, args[0])
			if errors.Is(err, context.Canceled) {
				return exit.Interrupted(fmt.Sprintf("stopped watching; the drain of %s goes on: `mind nodes %s` shows it, `mind enable %s` ends it", args[0], args[0], args[0]))
			}
			return err
		case output != "table":
			return render.Data(w, output, data)
		case dryRun:
			return got.preview(w, cmd.ErrOrStderr(), args[0])
		}
		return nodeLine(w, args[0], &got.node)
	})
	f := cmd.Flags()
	f.BoolVar(&force, "force", false, "stop running tasks now, with their grace periods")
	f.DurationVar(&deadline, "deadline", 0, "stop tasks that still run after this time, such as 30m")
	f.StringVar(&reason, "reason", "", "reason, shown with the node and in the audit log")
	f.BoolVar(&dryRun, "dry-run", false, "show what would happen to each job, and change nothing")
	f.BoolVar(&wait, "wait", false, "return when the node is empty")
	return cmd
}

// preview shows what a drain would do.
func (d *drained) preview(w, aside io.Writer, id string) error {
	if len(d.Effects) == 0 {
		fmt.Fprintf(w, "nothing runs on %s\n", id)
	} else {
		t := render.NewTable(w, "JOB", "NAME", "WHAT HAPPENS TO IT", "STOPS AT", "RESUMES FROM")
		for _, e := range d.Effects {
			job, name, stops, resumes := e.Job, e.Name, "", e.ResumesFrom
			if job == "" {
				job, name = "-", "(another tenant's)"
			}
			if e.StopsAt != nil {
				stops = render.Time(*e.StopsAt)
				if resumes == "" && e.Job != "" {
					resumes = "the beginning"
				}
			}
			t.Row(job, name, e.Effect, stops, resumes)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(aside, "nothing was changed: %s is %s\n", id, d.State)
	return nil
}

// awaitDrained waits until a node is empty, and reports progress on stderr.
func awaitDrained(ctx context.Context, c *rest.Client, cmd *cobra.Command, output string, id string) error {
	told := ""
	n, data, err := rest.Poll(ctx, c, "/cluster/nodes/"+url.PathEscape(id), func(n *node) (bool, error) {
		switch n.State {
		case "DRAINED":
			return true, nil
		case "READY":
			return false, fmt.Errorf("%s is no longer being drained: it was enabled", id)
		}
		line := fmt.Sprintf("%s %s, %d tasks left", id, n.State, n.Tasks)
		if n.Deadline != nil {
			line += ", to be stopped at " + render.Clock(*n.Deadline)
		}
		if line != told {
			fmt.Fprintln(cmd.ErrOrStderr(), line)
			told = line
		}
		return false, nil
	})
	switch {
	case rest.Gone(err):
		return fmt.Errorf("%s is no longer in the cluster: it was forgotten with `mind node forget`", id)
	case err != nil:
		return err
	case output != "table":
		return render.Data(cmd.OutOrStdout(), output, data)
	}
	return nodeLine(cmd.OutOrStdout(), id, n)
}

func newEnable() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "enable NODE",
		Short:   "End the drain of a node, so that it gets tasks again",
		Example: `  mind enable n3`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeNodes,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var n node
		var data json.RawMessage
		data, err := c.Post(ctx, "/cluster/nodes/"+url.PathEscape(args[0])+"/enable", map[string]any{}, "", &n)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		return nodeLine(cmd.OutOrStdout(), args[0], &n)
	})
}

func nodeLine(w io.Writer, id string, n *node) error {
	running := ""
	if n.Tasks > 0 {
		running = fmt.Sprintf(", %d tasks still run there", n.Tasks)
	}
	_, err := fmt.Fprintf(w, "%s %s%s\n", id, n.State, running)
	return err
}
