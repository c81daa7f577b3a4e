package cores

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

// pageLimit is how many things one page has.
const pageLimit = 100

// list reads pages of a path until it has limit items or there are no more. It says whether there are more.
func list[T any](ctx context.Context, c *rest.Client, path, name string, query url.Values, limit int) (all []T, raw []json.RawMessage, more bool, err error) {
	raw = []json.RawMessage{}
	for {
		query.Set("limit", strconv.Itoa(min(pageLimit, limit-len(all))))
		var page map[string]json.RawMessage
		if _, err := c.Get(ctx, path, query, &page); err != nil {
			return nil, nil, false, err
		}
		var next string
		var items []json.RawMessage
		if given(page[name]) {
			if err := json.Unmarshal(page[name], &items); err != nil {
				return nil, nil, false, fmt.Errorf("reading the list of %s: %w", name, err)
			}
		}
		if given(page["next_cursor"]) {
			if err := json.Unmarshal(page["next_cursor"], &next); err != nil {
				return nil, nil, false, fmt.Errorf("reading the list of %s: %w", name, err)
			}
		}
		for _, text := range items {
			var item T
			if err := json.Unmarshal(text, &item); err != nil {
				return nil, nil, false, fmt.Errorf("reading the list of %s: %w", name, err)
			}
			all = append(all, item)
		}
		raw = append(raw, items...)
		switch {
		case next == "" || next == query.Get("cursor"):
			return all, raw, false, nil
		case len(all) >= limit:
			return all, raw, true, nil
		}
		query.Set("cursor", next)
	}
}

// lister makes a command that lists things; row adds one to the table.
func lister[T any](cmd *cobra.Command, path, name string, query func(*cobra.Command) url.Values, header []string, row func(t *render.Table, item *T)) *cobra.Command {
	limit := 50
	cmd = rest.Command(cmd, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		if err := rest.Positive("limit", limit); err != nil {
			return err
		}
		items, raw, more, err := list[T](ctx, c, path, name, query(cmd), limit)
		if err != nil {
			return err
		}
		if more {
			defer fmt.Fprintf(cmd.ErrOrStderr(), "the first %d; more with --limit\n", len(items))
		}
		if output != "table" {
			return render.Value(cmd.OutOrStdout(), output, map[string]any{name: raw})
		}
		t := render.NewTable(cmd.OutOrStdout(), header...).Fit(render.Width(cmd.OutOrStdout()))
		for i := range items {
			row(t, &items[i])
		}
		return t.Flush()
	})
	cmd.Flags().IntVar(&limit, "limit", limit, "how many to list")
	return cmd
}

// filters are flags of a list that go into its query, under the names of the fields.
func filters(cmd *cobra.Command, flags map[string]string) url.Values {
	query := url.Values{}
	for flag, field := range flags {
		if v, _ := cmd.Flags().GetString(flag); v != "" {
			query.Set(field, v)
		}
	}
	return query
}

func newList() *cobra.Command {
	return lister(&cobra.Command{
		Use:     "list",
		Short:   "List the Cores of your tenant",
		Example: `  mind core list`,
		Args:    cobra.NoArgs,
	}, target.CorePath+"/cores", "cores", func(*cobra.Command) url.Values { return url.Values{} },
		[]string{"CORE", "NAME", "STATUS", "VERSION", "MODE", "AGE", "ERROR"},
		func(t *render.Table, k *core) {
			t.Row(k.Slug, k.Name, k.Status, strconv.Itoa(k.Version), k.Mode, render.Ago(k.CreatedAt), k.Error)
		})
}

func newShow() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "show CORE",
		Short: "Show a Core; with -o json its program too",
		Example: `  mind core show nightly
  mind core show nightly -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeCores,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got core
		data, err := c.Get(ctx, corePath(args[0]), nil, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		return printCore(cmd.OutOrStdout(), &got)
	})
}

func printCore(w io.Writer, k *core) error {
	f := render.NewFacts(w).Fit(render.Width(w))
	f.Add("core", k.Slug)
	f.Add("id", k.ID)
	f.Add("name", k.Name)
	f.Add("status", k.Status)
	f.Add("error", k.Error)
	var flows []string
	for _, one := range k.Source.Flows {
		flows = append(flows, one.Name)
	}
	if k.Version == 0 {
		f.Add("program", "none yet: `mind core update "+k.Slug+" -f PROGRAM` gives it one")
	} else {
		f.Add("program", "version "+strconv.Itoa(k.Version)+", "+k.Digest)
	}
	f.Add("flows", strings.Join(flows, ", "))
	f.Add("mode", k.Mode)
	f.Add("checkpoints", k.Asks)
	f.Add("notifies", k.Notify)
	f.Add("environment", strings.Join(k.Variables, ", "))
	f.Add("user", k.User)
	for _, at := range []struct {
		name string
		time *time.Time
	}{{"created", k.CreatedAt}, {"changed", k.UpdatedAt}, {"started", k.StartedAt}} {
		if at.time != nil {
			f.Add(at.name, ago(at.time))
		}
	}
	return f.Flush()
}

// ago is a time, and how long ago it was.
func ago(t *time.Time) string { return render.Time(*t) + " (" + render.Ago(t) + " ago)" }

func newDelete() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "delete CORE",
		Short:   "Delete a Core that is stopped and has no execution under way",
		Long:    `Deletes a Core. It has to be stopped, or never started, and its executions have to be over.`,
		Example: `  mind core delete nightly`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeCores,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		data, err := c.Call(ctx, http.MethodDelete, corePath(args[0]), nil, nil, rest.NewKey(), nil)
		switch {
		case err != nil && strings.Contains(err.Error(), "cannot be deleted"):
			return fmt.Errorf("%w: `mind core stop %s --wait` stops it", err, args[0])
		case err != nil && strings.Contains(err.Error(), "cancel them first"):
			return fmt.Errorf("%w: `mind execution list --core %s` lists them", err, args[0])
		case err != nil:
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s deleted\n", args[0])
		return nil
	})
}
