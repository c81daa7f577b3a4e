package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/upload"
)

func newSubmit() *cobra.Command {
	o := &SubmitOptions{}
	cmd := rest.Command(&cobra.Command{
		Use:   "submit [flags] -- COMMAND ARGS...",
		Short: "Submit a job and print its id",
		Long: `Submits a command, or the job described in a file, and prints the id of the job alone on stdout.

A command runs on one node. With --nodes N it is started once on each of N nodes, and must know how to share the work
(MIND_NODE_RANK, MASTER_ADDR). A job that could never run on the nodes of the cluster is refused, and the error says what
would fit.

The command starts in the current directory, unless --cwd names another one, and that directory must be on the nodes, too.
With --upload DIR the files of DIR go with the job, and the command starts in a copy of them. It does not see the environment of this
terminal: --env sets variables, and --venv says which Python environment it is in.

With --array FIRST-LAST the command is run once for each number, which it finds in MIND_ARRAY_INDEX. All elements have one
id, JOB; one of them is JOB[7]. The exit code of --wait is then the highest one of the elements that failed.

With --wait or --follow it returns when the job has ended, with the job's exit code, or with 75 if the job was canceled or
lost. Ctrl-C ends the command with exit code 130; the job keeps running.

Flags after the first word of the command belong to the command.`,
		Example: `  mind submit --gpus 2 -- python train.py --lr 3e-4
  mind submit --gpus 16 --nodes 2 --gpu-type H100 --time-limit 12h -- torchrun train.py
  mind submit --cpus 4 --memory 64Gi --wait -- ./preprocess.sh
  mind submit --venv .venv --gpus 1 -- python train.py
  mind submit --upload . --gpus 1 -- python train.py
  mind submit -f job.yaml --follow
  mind submit --array 0-99%10 --wait -- ./render.sh
  make-job | mind submit -f -`,
		Args: cobra.ArbitraryArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		body, err := o.Request(cmd.Flags(), args, os.Getwd)
		if err != nil {
			return exit.Misuse(err)
		}
		o.WarnOfVenv(cmd.ErrOrStderr(), args)
		if cmd.ArgsLenAtDash() < 0 {
			if late := flagsOf(cmd.Flags(), args); len(late) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "mind: warning: %s after the command: part of the command, and no flag of mind submit; write flags first, then --, then the command\n",
					render.Printable(strings.Join(late, ", ")))
			}
		}
		if err := o.SendUpload(ctx, c, cmd.ErrOrStderr(), body); err != nil {
			return err
		}
		var made struct {
			ID string `json:"job_id"`
		}
		data, err := c.Post(ctx, "/jobs", body, o.key, &made)
		if err != nil {
			return err
		}
		if output != "table" {
			if err := render.Data(cmd.OutOrStdout(), output, data); err != nil {
				return err
			}
		} else {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), made.ID); err != nil {
				return fmt.Errorf("%s was submitted, but its id could not be printed: %w", made.ID, err)
			}
		}
		if o.array != "" && o.follow {
			return interrupted(followArray(ctx, c, cmd.ErrOrStderr(), made.ID), made.ID)
		}
		if o.follow {
			err := printLogs(ctx, c, cmd.OutOrStdout(), made.ID, logOptions{follow: true, tail: -1, rank: -1, output: "table"})
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "mind: cannot follow the log: %s\n", exit.OneLine(err))
			}
		}
		if o.follow || o.wait {
			return interrupted(waitForJob(ctx, c, made.ID), made.ID)
		}
		return nil
	})
	// Flags after the first word of the command belong to the command, even without "--".
	cmd.Flags().SetInterspersed(false)
	o.Bind(cmd)
	return cmd
}

// SendUpload sends the directory of --upload, if it is given, and names it in the job.
func (o *SubmitOptions) SendUpload(ctx context.Context, c *rest.Client, progress io.Writer, body map[string]any) error {
	if o.upload == "" {
		return nil
	}
	sent, err := upload.Send(ctx, c, o.upload, progress)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "mind: %s\n", sent)
	request.Object(body).In("command_config")["upload"] = sent.ID
	return nil
}

// flagsOf lists the words of a command that look like flags of mind submit.
func flagsOf(flags *pflag.FlagSet, command []string) (found []string) {
	for i, word := range command {
		name, long := strings.CutPrefix(word, "--")
		if name, _, _ = strings.Cut(name, "="); i > 0 && long && flags.Lookup(name) != nil {
			found = append(found, "--"+name)
		}
	}
	return found
}

// interrupted tells the user that the job continues although it is no longer watched.
func interrupted(err error, id string) error {
	if errors.Is(err, context.Canceled) {
		return exit.Interrupted(fmt.Sprintf("stopped watching; the job goes on: `mind job %s` shows it, `mind logs -f %s` follows it again, `mind cancel %s` ends it", id, id, id))
	}
	return err
}

// waitForJob waits for the end of the job and returns how it ended.
func waitForJob(ctx context.Context, c *rest.Client, id string) error {
	j, _, err := rest.Poll(ctx, c, "/jobs/"+url.PathEscape(id), func(j *Job) (bool, error) { return j.Over(), nil })
	if err != nil {
		return err
	}
	return j.Exit()
}

func baseName(argv []string, command string) string {
	if len(argv) > 0 {
		return filepath.Base(argv[0])
	}
	if command != "" {
		return "command"
	}
	return "job"
}
