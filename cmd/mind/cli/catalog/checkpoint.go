package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/archive/checkpoints"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/jobs"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/durable"
)

var checkpointVerbs = rest.Verbs{newShowCheckpoint, newPullCheckpoint, newDeleteCheckpoint}

func newCheckpoint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Show, keep, download or delete one checkpoint",
		Example: `  mind checkpoint show ckpt_1a2b
  mind checkpoint pull ckpt_1a2b model`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newPinCheckpoint("pin", "Keep a checkpoint until it is unpinned"), newPinCheckpoint("unpin", "Let retention have a checkpoint again"))
	cmd.AddCommand(checkpointVerbs.Make()...)
	return cmd
}

// checkpointView is a checkpoint as the gateway returns it.
type checkpointView struct {
	ID        string      `json:"checkpoint_id"`
	Job       string      `json:"job_id"`
	Attempt   int         `json:"attempt"`
	Step      rest.Number `json:"step"`
	Kind      string      `json:"kind"`
	State     string      `json:"state"`
	Reason    string      `json:"reason"`
	Pinned    bool        `json:"pinned"`
	Size      rest.Number `json:"size_bytes"`
	Uploaded  rest.Number `json:"uploaded_bytes"`
	Digest    string      `json:"content_digest"`
	URI       string      `json:"uri"`
	Node      string      `json:"node_id"`
	Path      string      `json:"path"`
	CreatedAt *time.Time  `json:"created_at"`
}

func (p *checkpointView) print(to io.Writer) error {
	t := render.NewTable(to, "FIELD", "VALUE")
	t.Row("checkpoint", p.ID)
	t.Row("job", fmt.Sprintf("%s, attempt %d", p.Job, p.Attempt))
	t.Row("step", fmt.Sprint(p.Step))
	t.Row("kind", p.Kind)
	t.Row("state", p.State)
	if p.Reason != "" {
		t.Row("reason", p.Reason)
	}
	t.Row("pinned", fmt.Sprint(p.Pinned))
	t.Row("size", render.Size(int64(p.Size)))
	if p.State == "UPLOADING" {
		t.Row("uploaded", render.Size(int64(p.Uploaded)))
	}
	t.Row("age", render.Ago(p.CreatedAt))
	t.Row("node", p.Node)
	t.Row("path", p.Path)
	if p.URI != "" {
		t.Row("uri", p.URI)
		t.Row("digest", p.Digest)
	}
	return t.Flush()
}

func checkpointPath(id string) string { return "/checkpoints/" + url.PathEscape(id) }

func newShowCheckpoint() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use: "show CHECKPOINT", Short: "Show one checkpoint", Example: `  mind checkpoint show ckpt_1a2b`, Args: cobra.ExactArgs(1),
		ValidArgsFunction: jobs.CompleteCheckpoints,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var p checkpointView
		data, err := c.Get(ctx, checkpointPath(args[0]), nil, &p)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		return p.print(cmd.OutOrStdout())
	})
}

func newPinCheckpoint(action, short string) *cobra.Command {
	return rest.Command(&cobra.Command{
		Use: action + " CHECKPOINT", Short: short, Example: `  mind checkpoint ` + action + ` ckpt_1a2b`, Args: cobra.ExactArgs(1),
		ValidArgsFunction: jobs.CompleteCheckpoints,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var p checkpointView
		data, err := c.Post(ctx, checkpointPath(args[0])+"/"+action, map[string]any{}, "", &p)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		return p.print(cmd.OutOrStdout())
	})
}

// completePull completes a checkpoint, and then a directory.
func completePull(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return jobs.CompleteCheckpoints(cmd, args, typed)
}

func newPullCheckpoint() *cobra.Command {
	var file string
	cmd := rest.Command(&cobra.Command{
		Use:   "pull CHECKPOINT [DIR]",
		Short: "Download a checkpoint from the archive",
		Long: `Downloads a checkpoint from the archive into a new directory (default: one with the checkpoint's id), and compares it
with its digest. The directory is there when all of it has arrived, not before.`,
		Example: `  mind checkpoint pull ckpt_1a2b model
  mind checkpoint pull ckpt_1a2b --file model.tar`,
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: completePull,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, _ string, args []string) error {
		dir := args[0]
		switch {
		case len(args) == 2 && file != "":
			return exit.Misuse(errors.New("give a directory or --file, not both"))
		case len(args) == 2:
			dir = args[1]
		}
		var p checkpointView
		if _, err := c.Get(ctx, checkpointPath(args[0]), nil, &p); err != nil {
			return err
		}
		body, header, err := c.Download(ctx, checkpointPath(args[0])+"/download")
		if err != nil {
			return err
		}
		defer body.Close()
		digest := header.Get("X-Mind-Content-Digest")
		if p.Digest != "" && p.Digest != digest {
			return errors.New("the gateway gives out another checkpoint: its archive is not that of the agents")
		}
		from := &watched{from: body, to: cmd.ErrOrStderr(), size: int64(p.Size), told: time.Now()}
		into := file
		if file != "" {
			err = pullFile(from, file, digest)
		} else {
			into = dir
			err = checkpoints.Extract(from, dir, digest)
		}
		if err != nil {
			return fmt.Errorf("pulling %s: %w", args[0], err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, step %d of %s\n", into, render.Size(int64(p.Size)), p.Step, p.Job)
		return err
	})
	cmd.Flags().StringVar(&file, "file", "", "write the tar archive to this file instead of extracting it")
	return cmd
}

// pullFile writes the tar archive into a file, if it has the digest.
func pullFile(from io.Reader, name, digest string) error {
	file, err := durable.Create(name, 0o644)
	if err != nil {
		return err
	}
	defer file.Discard()
	got, err := checkpoints.Digest(io.TeeReader(from, file))
	switch {
	case err != nil:
		return err
	case got != digest:
		return errors.New("what arrived does not have the digest of the checkpoint: try again")
	}
	return file.Commit()
}

// watched is a reader that prints from time to time how much has arrived.
type watched struct {
	from       io.Reader
	to         io.Writer
	done, size int64
	told       time.Time
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	w.done += int64(n)
	if time.Since(w.told) > 2*time.Second {
		w.told = time.Now()
		fmt.Fprintf(w.to, "%s of %s\n", render.Size(w.done), render.Size(w.size))
	}
	return n, err
}
