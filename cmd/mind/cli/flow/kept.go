package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// kept are the verbs about flows that the cluster keeps.
var kept = rest.Verbs{
	newList, newShow, newCreate, newSave, newDelete, newVersions, newDeploy, newDeployments, newTest, newACL,
}

// flow is one as the gateway shows it.
type flow struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Owner       string          `json:"owner_id"`
	Version     string          `json:"version"`
	Level       string          `json:"level"`
	CreatedAt   *time.Time      `json:"created_at"`
	UpdatedAt   *time.Time      `json:"updated_at"`
	Content     json.RawMessage `json:"content"`
}

func flowPath(id string, more ...string) string {
	path := target.FlowPath + "/" + url.PathEscape(id)
	for _, m := range more {
		path += "/" + url.PathEscape(m)
	}
	return path
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

func slugOf(name string) string {
	return strings.Trim(notSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// idOf returns the id of a flow that is named by its id, its name, or its name in the form of a slug.
func idOf(ctx context.Context, c *rest.Client, text string) (string, error) {
	if strings.HasPrefix(text, "flow_") {
		return text, nil
	}
	var page struct{ Items []flow }
	if _, err := c.Get(ctx, target.FlowPath, url.Values{"limit": {"1000"}}, &page); err != nil {
		return "", err
	}
	var ids []string
	for i := range page.Items {
		if f := &page.Items[i]; f.Name == text || slugOf(f.Name) == text {
			ids = append(ids, f.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("there is no flow %q: `mind flow list` lists those that you may view", text)
	case 1:
		return ids[0], nil
	}
	return "", exit.Misuse(fmt.Errorf("%q is the name of %d flows: give an id: %s", text, len(ids), strings.Join(ids, ", ")))
}

// about makes a command about one flow, which is its first argument.
func about(cmd *cobra.Command, run func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, args []string) error) *cobra.Command {
	cmd.ValidArgsFunction = completeFlows
	return rest.Command(cmd, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		id, err := idOf(ctx, c, args[0])
		if err != nil {
			return err
		}
		return run(ctx, cmd, c, output, id, args[1:])
	})
}

// completeFlows completes ids of flows.
func completeFlows(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, args, target.FlowPath, "items", "id", "name")
}

func newList() *cobra.Command {
	var search string
	limit := 100
	cmd := rest.Command(&cobra.Command{
		Use:   "list",
		Short: "List the flows that you may view",
		Example: `  mind flow list
  mind flow list --search triage`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		if err := rest.Positive("limit", limit); err != nil {
			return err
		}
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		if search != "" {
			query.Set("search", search)
		}
		var page struct {
			Items []flow
			Total int
		}
		data, err := c.Get(ctx, target.FlowPath, query, &page)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "FLOW", "NAME", "VERSION", "OWNER", "LEVEL", "CHANGED").Fit(render.Width(cmd.OutOrStdout()))
		for i := range page.Items {
			f := &page.Items[i]
			t.Row(f.ID, f.Name, f.Version, f.Owner, f.Level, render.Ago(f.UpdatedAt))
		}
		if page.Total > len(page.Items) {
			defer fmt.Fprintf(cmd.ErrOrStderr(), "the first %d of %d; more with --limit, up to 1000\n", len(page.Items), page.Total)
		}
		return t.Flush()
	})
	cmd.Flags().StringVar(&search, "search", "", "only flows with this in their name")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many to list")
	return cmd
}

func newShow() *cobra.Command {
	var version, out string
	cmd := about(&cobra.Command{
		Use:   "show FLOW",
		Short: "Show a flow; with --out its content goes into a file",
		Long: `Shows a flow. --out writes its content into a file, with the version in it: mind flow save takes the file back, and knows from
that version what the change was made from.`,
		Example: `  mind flow show ticket-triage
  mind flow show flow_1k0g00 --version 0.1.0 --out triage.flow.json`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, _ []string) error {
		var f flow
		data, err := c.Get(ctx, flowPath(id), nil, &f)
		if err == nil && version != "" {
			data, err = c.Get(ctx, flowPath(id, "versions", version), nil, &f)
		}
		switch {
		case err != nil:
			return err
		case out != "":
			return write(cmd.OutOrStdout(), out, f.Content)
		case output != "table":
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		facts := render.NewFacts(cmd.OutOrStdout()).Fit(render.Width(cmd.OutOrStdout()))
		facts.Add("flow", f.ID)
		facts.Add("name", f.Name)
		facts.Add("description", f.Description)
		facts.Add("version", f.Version)
		facts.Add("owner", f.Owner)
		facts.Add("you may", f.Level)
		for _, at := range []struct {
			name string
			time *time.Time
		}{{"created", f.CreatedAt}, {"changed", f.UpdatedAt}} {
			if at.time != nil {
				facts.Add(at.name, render.Time(*at.time)+" ("+render.Ago(at.time)+" ago)")
			}
		}
		return facts.Flush()
	})
	cmd.Flags().StringVar(&version, "version", "", "the content of this version (default: the current one)")
	cmd.Flags().StringVar(&out, "out", "", "file to write the content into; - is stdout")
	return cmd
}

func newVersions() *cobra.Command {
	return about(&cobra.Command{
		Use: "versions FLOW", Short: "List the versions of a flow", Example: `  mind flow versions ticket-triage`, Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, _ []string) error {
		var page struct {
			Items []struct {
				Version   string
				Size      int        `json:"size_bytes"`
				By        string     `json:"created_by"`
				CreatedAt *time.Time `json:"created_at"`
				Digest    string     `json:"sha256"`
			}
		}
		data, err := c.Get(ctx, flowPath(id, "versions"), nil, &page)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "VERSION", "BYTES", "BY", "AGE", "SHA256").Fit(render.Width(cmd.OutOrStdout()))
		for i := range page.Items {
			v := &page.Items[i]
			t.Row(v.Version, strconv.Itoa(v.Size), v.By, render.Ago(v.CreatedAt), v.Digest[:min(len(v.Digest), 12)])
		}
		return t.Flush()
	})
}

func newDelete() *cobra.Command {
	return about(&cobra.Command{
		Use:     "delete FLOW",
		Short:   "Delete a flow; the Core that it was deployed to goes on",
		Long:    `Deletes a flow: nobody sees it any more. The Core that it was deployed to goes on; mind core delete removes that.`,
		Example: `  mind flow delete ticket-triage`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, _ []string) error {
		if _, err := c.Call(ctx, http.MethodDelete, flowPath(id), nil, nil, rest.NewKey(), nil); err != nil {
			return err
		}
		if output != "table" {
			return render.Value(cmd.OutOrStdout(), output, map[string]string{"id": id})
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s deleted\n", id)
		return nil
	})
}
