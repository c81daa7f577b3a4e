package jobs

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// completeJobs is the number of jobs whose checkpoints are offered if no job is named: the newest with checkpoints.
// Each one is a call.
const completeJobs = 8

// CompleteCheckpoints completes the id of a checkpoint as the first argument: of the newest jobs, without checkpoints
// that were given up.
func CompleteCheckpoints(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeCheckpoints(cmd, nil)
}

// CompleteCheckpointsOf completes the id of a checkpoint for a flag: of the jobs among the arguments, or otherwise of
// the newest jobs.
func CompleteCheckpointsOf(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeCheckpoints(cmd, args)
}

func completeCheckpoints(cmd *cobra.Command, ids []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, ctx, cancel := rest.ForCompletion(cmd)
	defer cancel()
	if c == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if len(ids) == 0 {
		all, _, _, err := List(ctx, c, url.Values{}, 50)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for i := range all {
			if all[i].LastCheckpoint != "" {
				ids = append(ids, all[i].ID)
			}
		}
	}
	ids = ids[:min(len(ids), completeJobs)]
	found := make([][]cobra.Completion, len(ids))
	var calls sync.WaitGroup
	for i, id := range ids {
		calls.Go(func() { found[i] = checkpointsOf(ctx, c, id) })
	}
	calls.Wait()
	return slices.Concat(found...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// checkpointsOf lists the checkpoints of a job, the newest first. It returns none if the call fails.
func checkpointsOf(ctx context.Context, c *rest.Client, job string) (found []cobra.Completion) {
	var got struct {
		Checkpoints []struct {
			ID    string      `json:"checkpoint_id"`
			Step  rest.Number `json:"step"`
			State string      `json:"state"`
			Kind  string      `json:"kind"`
		} `json:"checkpoints"`
	}
	if _, err := c.Get(ctx, "/jobs/"+url.PathEscape(job)+"/checkpoints", nil, &got); err != nil {
		return nil
	}
	slices.Reverse(got.Checkpoints)
	for _, p := range got.Checkpoints {
		if p.State != "EXPIRED" {
			found = append(found, cobra.CompletionWithDesc(p.ID, fmt.Sprintf("step %d, %s, of %s", p.Step, cmp.Or(p.Kind, "CHECKPOINT")+" "+p.State, job)))
		}
	}
	return found
}
