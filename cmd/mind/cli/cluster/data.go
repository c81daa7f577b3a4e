package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newData() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Check data sources and list cached data",
		Long: `Checks the data sources of jobs and lists what the nodes have cached.

A node fetches the data_config.sources of a job before it launches the job. It caches them for later jobs of the same tenant
until it needs the space. A source is a path on the nodes or a URL: file://, http(s)://, s3://BUCKET/KEY,
hf://datasets/OWNER/NAME, scaidrive://SHARE/PATH or scaiatlas://SHARE/PATH. Both commands require the permission scaimind:manage.`,
		Example: `  mind data validate hf://datasets/acme/support-chats /data/train.jsonl
  mind data cache`,
	}
	cmd.AddCommand(newDataValidate(), newDataCache())
	return cmd
}

// sourceCheck is the result of a node's check of one source.
type sourceCheck struct {
	Path    string `json:"path"`
	Valid   bool   `json:"valid"`
	Message string `json:"message"`
	Files   *int   `json:"files"`
	Size    *int64 `json:"size_bytes"`
	Cached  bool   `json:"cached"`
}

func newDataValidate() *cobra.Command {
	var file, node string
	cmd := rest.Command(&cobra.Command{
		Use:   "validate [SOURCE ...]",
		Short: "Check whether a node can fetch data sources, without fetching them",
		Long: `Checks whether a node can fetch data sources with your tokens, without fetching them. The exit code is 1 if it cannot fetch
one of them.`,
		Example: `  mind data validate s3://corpora/wiki/ https://example.org/train.jsonl
  mind data validate -f job.yaml --node n1`,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var sources []any
		for _, path := range args {
			sources = append(sources, map[string]any{"path": path})
		}
		if file != "" {
			of, err := sourcesOf(file)
			if err != nil {
				return exit.Misuse(err)
			}
			sources = append(sources, of...)
		}
		if len(sources) == 0 {
			return exit.Misuse(errors.New("give at least one source, or a job with -f"))
		}
		body := map[string]any{"sources": sources}
		if node != "" {
			body["node_id"] = node
		}
		var got struct {
			Valid   bool          `json:"valid"`
			Node    string        `json:"node_id"`
			Sources []sourceCheck `json:"sources"`
		}
		data, err := c.Post(ctx, "/data/validate", body, "", &got)
		if err != nil {
			return err
		}
		if output != "table" {
			err = render.Data(cmd.OutOrStdout(), output, data)
		} else {
			err = printChecks(cmd, got.Sources)
		}
		if err == nil && !got.Valid {
			err = fmt.Errorf("not all sources can be fetched by node %s", got.Node)
		}
		return err
	})
	cmd.Flags().StringVarP(&file, "file", "f", "", "job (YAML or JSON) whose data_config.sources are checked")
	cmd.Flags().StringVar(&node, "node", "", "node that does the check; default: any ready node")
	return cmd
}

func printChecks(cmd *cobra.Command, checks []sourceCheck) error {
	t := render.NewTable(cmd.OutOrStdout(), "SOURCE", "OK", "FILES", "SIZE", "CACHED", "MESSAGE")
	for _, check := range checks {
		files, size := "", ""
		if check.Files != nil {
			files = strconv.Itoa(*check.Files)
		}
		if check.Size != nil {
			size = byteCount(*check.Size)
		}
		t.Row(check.Path, yesNo(check.Valid), files, size, yesNo(check.Cached), check.Message)
	}
	return t.Flush()
}

// sourcesOf reads the data sources of a job.
func sourcesOf(file string) ([]any, error) {
	body, err := request.Read(file)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	sources, _ := request.AsObject(body["data_config"])["sources"].([]any)
	if len(sources) == 0 {
		return nil, fmt.Errorf("--file: %s has no data_config.sources", file)
	}
	return sources, nil
}

func newDataCache() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "cache",
		Short: "List the tenant's data that nodes have cached",
		Long: `Lists the tenant's data that nodes have cached, most recently used first. A node that needs space removes the least recently
used data first, and never data that is in use.`,
		Example: `  mind data cache
  mind data cache -o json`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Nodes []struct {
				ID       string `json:"node_id"`
				Capacity int64  `json:"capacity_bytes"`
				Used     int64  `json:"used_bytes"`
				Error    string `json:"error"`
				Entries  []struct {
					Path      string     `json:"path"`
					Size      int64      `json:"size_bytes"`
					Files     int        `json:"files"`
					FetchedAt *time.Time `json:"fetched_at"`
					LastUsed  *time.Time `json:"last_used_at"`
					InUse     bool       `json:"in_use"`
				} `json:"entries"`
			} `json:"nodes"`
		}
		data, err := c.Get(ctx, "/data/cache", nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "NODE", "SOURCE", "SIZE", "FILES", "FETCHED", "USED", "IN USE")
		for _, n := range got.Nodes {
			if n.Error != "" {
				t.Row(n.ID, "("+n.Error+")")
				continue
			}
			for _, e := range n.Entries {
				t.Row(n.ID, e.Path, byteCount(e.Size), strconv.Itoa(e.Files), render.Ago(e.FetchedAt)+" ago", render.Ago(e.LastUsed)+" ago", yesNo(e.InUse))
			}
			t.Row(n.ID, fmt.Sprintf("(%d sources, %s of %s)", len(n.Entries), byteCount(n.Used), byteCount(n.Capacity)))
		}
		return t.Flush()
	})
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// byteCount formats a number of bytes with at most four digits.
func byteCount(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	value, unit := float64(n), 0
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 || value >= 100 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
