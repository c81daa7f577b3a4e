package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// control makes a command that asks something of one or more jobs. What one refuses does not keep the others from it.
func control(cmd *cobra.Command, action string, flags func(*pflag.FlagSet), body func(*pflag.FlagSet) map[string]any) *cobra.Command {
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.ValidArgsFunction = CompleteJobs
	rest.Command(cmd, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var refused error
		changed := []json.RawMessage{}
		for _, id := range args {
			var j Job
			data, err := c.Post(ctx, "/jobs/"+url.PathEscape(id)+"/"+action, body(cmd.Flags()), "", &j)
			switch {
			case err != nil && len(args) == 1:
				return err
			case err != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "mind: %s: %s\n", id, exit.OneLine(err))
				refused = exit.With(exit.Failed, nil)
			case output != "table":
				changed = append(changed, data)
			default:
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", id, j.Status)
				if action == "cancel" && j.Stopping != "" && strings.Contains(j.Reason, "unreachable") {
					fmt.Fprintf(cmd.ErrOrStderr(), "mind: %s is not over yet: %s\n", id, j.Reason)
				}
			}
		}
		var err error
		switch {
		case output == "table":
		case len(args) == 1:
			err = render.Data(cmd.OutOrStdout(), output, changed[0])
		default:
			err = render.Value(cmd.OutOrStdout(), output, map[string]any{"jobs": changed})
		}
		if err != nil {
			return err
		}
		return refused
	})
	if flags != nil {
		flags(cmd.Flags())
	}
	return cmd
}

func newCancel() *cobra.Command {
	var reason string
	var vouch bool
	return control(&cobra.Command{
		Use:   "cancel JOB...",
		Short: "Stop jobs for good",
		Long: `Stops jobs for good.

A job on a node that cannot be reached is CANCELLED once its task there is certainly dead: when the node is back or forgotten, or
when the task has ended by its own deadline. ` + "`mind job`" + ` says until when that may take. With --vouch you say that the task is dead,
for example because you switched the node off: then the job does not wait.`,
		Example: `  mind cancel job_1a2b
  mind cancel --reason "wrong data" job_1a2b job_3c4d
  mind cancel --vouch job_1a2b      # its node burned down`,
	}, "cancel",
		func(f *pflag.FlagSet) {
			f.StringVar(&reason, "reason", "", "why, for those who ask later")
			f.BoolVar(&vouch, "vouch", false, "you know that what the job ran on unreachable nodes is dead")
		},
		func(*pflag.FlagSet) map[string]any {
			body := map[string]any{}
			if reason != "" {
				body["reason"] = reason
			}
			if vouch {
				body["vouch"] = true
			}
			return body
		})
}

func newPause() *cobra.Command {
	var save bool
	return control(&cobra.Command{
		Use:   "pause JOB...",
		Short: "Stop running jobs so that they can go on later",
		Example: `  mind pause job_1a2b
  mind pause --save-checkpoint=false job_1a2b`,
	}, "pause",
		func(f *pflag.FlagSet) {
			f.BoolVar(&save, "save-checkpoint", true, "give it notice and time to save")
		},
		func(*pflag.FlagSet) map[string]any { return map[string]any{"save_checkpoint": save} })
}

func newResume() *cobra.Command {
	var checkpoint string
	return control(&cobra.Command{
		Use:   "resume JOB...",
		Short: "Let paused jobs go on",
		Example: `  mind resume job_1a2b
  mind resume --checkpoint ckpt_5e6f job_1a2b`,
	}, "resume", bindCheckpoint(&checkpoint),
		func(*pflag.FlagSet) map[string]any { return withCheckpoint(checkpoint) })
}

func newRetry() *cobra.Command {
	var checkpoint, gpuType, memory string
	var gpus, nodes int
	cmd := control(&cobra.Command{
		Use:   "retry JOB...",
		Short: "Run jobs again that have ended",
		Example: `  mind retry job_1a2b
  mind retry --gpu-type H200 --gpus 16 job_1a2b`,
	}, "retry", func(f *pflag.FlagSet) {
		bindCheckpoint(&checkpoint)(f)
		f.IntVar(&gpus, "gpus", 0, "with this many GPUs, of all nodes together")
		f.IntVar(&nodes, "nodes", 0, "on this many nodes")
		f.StringVar(&gpuType, "gpu-type", "", "with GPUs of this type")
		f.StringVar(&memory, "memory", "", "with this much memory on each node, such as 128Gi")
	}, func(f *pflag.FlagSet) map[string]any {
		body, changed := withCheckpoint(checkpoint), map[string]any{}
		if f.Changed("gpus") {
			changed["gpu_count"] = gpus
		}
		if f.Changed("nodes") {
			changed["node_count"] = nodes
		}
		if f.Changed("gpu-type") {
			changed["gpu_type"] = gpuType
		}
		if mb, err := request.Mebibytes(memory); f.Changed("memory") && err == nil {
			changed["memory_mb"] = mb
		}
		if len(changed) > 0 {
			body["modify_resources"] = changed
		}
		return body
	})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := request.Mebibytes(memory); cmd.Flags().Changed("memory") && err != nil {
			return exit.Misuse(fmt.Errorf("--memory: %w", err))
		}
		return nil
	}
	return cmd
}

func bindCheckpoint(into *string) func(*pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		f.StringVar(into, "checkpoint", "", "from this checkpoint (default: the newest)")
	}
}

func withCheckpoint(id string) map[string]any {
	if id == "" {
		return map[string]any{}
	}
	return map[string]any{"checkpoint_id": id}
}
