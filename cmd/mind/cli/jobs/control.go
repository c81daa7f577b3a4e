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

// action describes one thing that a command does to jobs.
type action struct {
	name string
	// ends says whether a job is where the action brings it; nil: there is no waiting for it.
	ends func(*Job) bool
	// from are the statuses of the jobs that it is for, if they may be chosen by flags; nil: they are named.
	from []string
}

// control makes a command that acts on one or more jobs. If one job refuses, the others are still handled.
func control(cmd *cobra.Command, a action, flags func(*pflag.FlagSet), body func(*pflag.FlagSet) map[string]any) *cobra.Command {
	var wait bool
	chosen := selection{from: a.from}
	cmd.Args = cobra.MinimumNArgs(1)
	if a.from != nil {
		cmd.Args = cobra.ArbitraryArgs
	}
	cmd.ValidArgsFunction = CompleteJobs
	rest.Command(cmd, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		ids, err := chosen.ids(ctx, cmd, c, a.name, args)
		if err != nil {
			return err
		}
		one := len(ids) == 1 && !chosen.some()
		var refused error
		var changed []json.RawMessage
		var left []string
		for _, id := range ids {
			var j Job
			data, err := c.Post(ctx, "/jobs/"+url.PathEscape(id)+"/"+a.name, body(cmd.Flags()), "", &j)
			switch {
			case err != nil && one:
				return err
			case err != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "mind: %s: %s\n", id, exit.OneLine(err))
				refused = exit.With(exit.Failed, nil)
			case wait && !a.ends(&j):
				left = append(left, id)
			default:
				changed = append(changed, data)
				a.print(cmd, output, id, &j)
			}
		}
		for _, id := range left {
			j, data, err := rest.Poll(ctx, c, "/jobs/"+url.PathEscape(id), func(j *Job) (bool, error) { return a.ends(j) || j.Over(), nil })
			if err != nil {
				return interrupted(err, id)
			}
			changed = append(changed, data)
			a.print(cmd, output, id, j)
			if !a.ends(j) {
				fmt.Fprintf(cmd.ErrOrStderr(), "mind: %s ended before it was to %s\n", id, a.name)
				refused = exit.With(exit.Failed, nil)
			}
		}
		switch {
		case output == "table":
		case one:
			err = render.Data(cmd.OutOrStdout(), output, changed[0])
		default:
			err = render.Value(cmd.OutOrStdout(), output, map[string]any{"jobs": append([]json.RawMessage{}, changed...)})
		}
		if err != nil {
			return err
		}
		return refused
	})
	if flags != nil {
		flags(cmd.Flags())
	}
	if a.ends != nil {
		cmd.Flags().BoolVar(&wait, "wait", false, "return when the jobs have stopped")
	}
	if a.from != nil {
		chosen.bind(cmd)
	}
	if cmd.Flags().Lookup("checkpoint") != nil {
		_ = cmd.RegisterFlagCompletionFunc("checkpoint", CompleteCheckpointsOf) // fails only for an unknown flag, or if called twice
	}
	return cmd
}

// print prints the status of a job after the action.
func (a action) print(cmd *cobra.Command, output, id string, j *Job) {
	if output != "table" {
		return
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", id, j.Status)
	if a.name == "cancel" && j.Stopping != "" && strings.Contains(j.Reason, "unreachable") {
		fmt.Fprintf(cmd.ErrOrStderr(), "mind: %s is not over yet: %s\n", id, j.Reason)
	}
}

// Statuses of jobs that are not over.
var (
	waiting  = []string{"PENDING", "QUEUED", "SCHEDULING"}
	unpaused = append([]string{"PREPARING", "TRAINING", "CHECKPOINTING", "EVALUATING", "EXPORTING", "PREEMPTED"}, waiting...)
	unended  = append([]string{"PAUSED"}, unpaused...)
	toCancel = action{name: "cancel", from: unended, ends: (*Job).Over}
	toPause  = action{name: "pause", from: unpaused, ends: func(j *Job) bool {
		return j.Status == "PAUSED" && j.Stopping == "" && (j.Array == nil || j.Array.Running == 0)
	}}
	toResume  = action{name: "resume", from: []string{"PAUSED"}}
	toHold    = action{name: "hold", from: unpaused}
	toRelease = action{name: "release", from: unpaused}
)

func newCancel() *cobra.Command {
	var reason string
	var vouch bool
	return control(&cobra.Command{
		Use:   "cancel JOB...",
		Short: "Cancel jobs",
		Long: `Cancels jobs. A canceled job does not run again unless it is retried.

A job on an unreachable node is CANCELLED once its task there is certainly dead: when the node is back, when it is forgotten,
or when the task has reached its own deadline. ` + "`mind job`" + ` shows how long that may take. With --vouch you confirm that the task is
dead, for example because you switched the node off: then the job is CANCELLED without waiting.`,
		Example: `  mind cancel job_1a2b
  mind cancel --reason "wrong data" job_1a2b job_3c4d
  mind cancel --label team=vision --status QUEUED   # asks first
  mind cancel --vouch job_1a2b      # its node burned down`,
	}, toCancel,
		func(f *pflag.FlagSet) {
			f.StringVar(&reason, "reason", "", "reason, shown with the job and in the audit log")
			f.BoolVar(&vouch, "vouch", false, "confirm that the job's tasks on unreachable nodes are dead")
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
		Short: "Stop running jobs so that they can be resumed later",
		Example: `  mind pause job_1a2b
  mind pause --wait job_1a2b
  mind pause --save-checkpoint=false job_1a2b
  mind pause --user me --yes`,
	}, toPause,
		func(f *pflag.FlagSet) {
			f.BoolVar(&save, "save-checkpoint", true, "give it notice and time to save a checkpoint")
		},
		func(*pflag.FlagSet) map[string]any { return map[string]any{"save_checkpoint": save} })
}

func newResume() *cobra.Command {
	var checkpoint string
	return control(&cobra.Command{
		Use:   "resume JOB...",
		Short: "Resume paused jobs",
		Long:  "Resumes paused jobs. A job whose attempt is still being stopped goes on when it has stopped.",
		Example: `  mind resume job_1a2b
  mind resume --checkpoint ckpt_5e6f job_1a2b`,
	}, toResume, bindCheckpoint(&checkpoint),
		func(*pflag.FlagSet) map[string]any { return withCheckpoint(checkpoint) })
}

func newHold() *cobra.Command {
	var reason string
	return control(&cobra.Command{
		Use:   "hold JOB...",
		Short: "Keep jobs that wait from starting",
		Long: `Keeps jobs that wait from starting until ` + "`mind release`" + `. They keep their places by age. Elements of an array that run go on; no
other one starts.`,
		Example: `  mind hold job_1a2b
  mind hold --label sweep=7 --reason "the data is wrong" --yes`,
	}, toHold,
		func(f *pflag.FlagSet) {
			f.StringVar(&reason, "reason", "", "reason, shown with the job and in the audit log")
		},
		func(*pflag.FlagSet) map[string]any {
			if reason == "" {
				return map[string]any{}
			}
			return map[string]any{"reason": reason}
		})
}

func newRelease() *cobra.Command {
	return control(&cobra.Command{
		Use:   "release JOB...",
		Short: "Let jobs start that were held",
		Example: `  mind release job_1a2b
  mind release --label sweep=7`,
	}, toRelease, nil, func(*pflag.FlagSet) map[string]any { return map[string]any{} })
}

func newRetry() *cobra.Command {
	var checkpoint, gpuType, memory string
	var gpus, nodes int
	cmd := control(&cobra.Command{
		Use:   "retry JOB...",
		Short: "Run ended jobs again",
		Example: `  mind retry job_1a2b
  mind retry --gpu-type H200 --gpus 16 job_1a2b`,
	}, action{name: "retry"}, func(f *pflag.FlagSet) {
		bindCheckpoint(&checkpoint)(f)
		f.IntVar(&gpus, "gpus", 0, "number of GPUs, over all nodes")
		f.IntVar(&nodes, "nodes", 0, "number of nodes")
		f.StringVar(&gpuType, "gpu-type", "", "type of the GPUs")
		f.StringVar(&memory, "memory", "", "memory of each node, such as 128Gi")
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
		f.StringVar(into, "checkpoint", "", "checkpoint to start from (default: the newest)")
	}
}

func withCheckpoint(id string) map[string]any {
	if id == "" {
		return map[string]any{}
	}
	return map[string]any{"checkpoint_id": id}
}
