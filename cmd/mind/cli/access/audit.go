package access

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
	"github.com/mindcoordinator/mind/durable"
)

// auditPage is the number of records requested at a time.
const auditPage = 1000

// auditRecords is one page of the audit log.
type auditRecords struct {
	Records []json.RawMessage `json:"records"`
	Next    string            `json:"next_page_token"`
	Dropped uint64            `json:"dropped_before_index"`
}

type auditLine struct {
	Time    time.Time `json:"time"`
	Tenant  string    `json:"tenant_id"`
	User    string    `json:"user_id"`
	Token   string    `json:"token_id"`
	Action  string    `json:"action"`
	Object  string    `json:"object"`
	Outcome string    `json:"outcome"`
	Message string    `json:"message"`
}

func newAudit() *cobra.Command {
	var (
		user, action, object, outcome, since, until, tenant, export string
		limit                                                       int
	)
	cmd := rest.Command(&cobra.Command{
		Use:   "audit",
		Short: "Show who did what, newest first",
		Long: `Shows who did what to which object, newest first: every write to jobs, nodes, queues, tokens, quotas and coordinators, and
whether it was carried out or refused. Denied calls are counted and recorded once a minute (access.deny).
It requires the permission scaimind:cluster_admin, and mind:operator for the records of other tenants.

The cluster keeps the newest 100,000 records about jobs, as many about denied calls and as many about everything else
(audit_records of the coordinators), so export them regularly. --export writes all matching records to a file, one JSON
object per line, newest first; - is stdout. The file is written completely or not at all.`,
		Example: `  mind audit --since 24h
  mind audit --action node --object n1
  mind audit --user ann --outcome NOT_FOUND
  mind audit --tenant '*' --action access --since 1h   # failed logins and missing permissions
  mind audit --tenant '*' --export audit.jsonl`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		query := url.Values{}
		for name, value := range map[string]string{
			"user_id": user, "action": action, "object": object, "outcome": outcome, "since": since, "until": until, "tenant_id": tenant,
		} {
			if value != "" {
				query.Set(name, value)
			}
		}
		if export != "" {
			return exportAudit(ctx, cmd, c, query, export)
		}
		if err := rest.Positive("limit", limit); err != nil {
			return err
		}
		query.Set("page_size", strconv.Itoa(min(limit, auditPage)))
		var page auditRecords
		data, err := c.Get(ctx, "/audit", query, &page)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "TIME", "TENANT", "USER", "TOKEN", "ACTION", "OBJECT", "OUTCOME", "MESSAGE")
		for _, raw := range page.Records {
			var r auditLine
			if err := json.Unmarshal(raw, &r); err != nil {
				return fmt.Errorf("reading a record of the audit log: %w", err)
			}
			t.Row(render.Time(r.Time), r.Tenant, r.User, r.Token, r.Action, r.Object, r.Outcome, r.Message)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if page.Next != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "older records exist: raise --limit, narrow the search, or use --export FILE")
		}
		tellDropped(cmd.ErrOrStderr(), page.Dropped)
		return nil
	})
	f := cmd.Flags()
	f.StringVar(&user, "user", "", "only actions of this user")
	f.StringVar(&action, "action", "", "only this action, such as node.drain, or all actions of a kind, such as node")
	f.StringVar(&object, "object", "", "only actions on this object: an id or a name")
	f.StringVar(&outcome, "outcome", "", "only OK, or only a refusal such as NOT_FOUND")
	f.StringVar(&since, "since", "", "only records since: a duration such as 24h, or a time such as 2026-01-31T08:00:00Z")
	f.StringVar(&until, "until", "", "only records until; written like --since")
	f.StringVar(&tenant, "tenant", "", "records of this tenant, or '*' for all; default: your own")
	f.StringVar(&export, "export", "", "write all matching records to this file as JSON lines; - is stdout")
	f.IntVar(&limit, "limit", 50, "number of records to show, at most 1000")
	return cmd
}

func tellDropped(w io.Writer, index uint64) {
	if index != 0 {
		fmt.Fprintf(w, "some records before index %d were dropped: the audit log is limited (audit_records)\n", index)
	}
}

// exportAudit writes every matching record, page by page. The file gets its name only when it is complete.
func exportAudit(ctx context.Context, cmd *cobra.Command, c *rest.Client, query url.Values, path string) (err error) {
	out := cmd.OutOrStdout()
	if path != "-" {
		file, err := durable.Create(path, 0o600)
		if err != nil {
			return fmt.Errorf("creating a temporary file for %s: %w", path, err)
		}
		defer file.Discard()
		count, dropped, err := writeAudit(ctx, c, query, file)
		if err == nil {
			err = file.Commit()
		}
		if err != nil {
			return fmt.Errorf("exporting the audit log to %s: %w", path, err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%d records written to %s\n", count, path)
		tellDropped(cmd.ErrOrStderr(), dropped)
		return nil
	}
	_, dropped, err := writeAudit(ctx, c, query, out)
	tellDropped(cmd.ErrOrStderr(), dropped)
	return err
}

func writeAudit(ctx context.Context, c *rest.Client, query url.Values, to io.Writer) (count int, dropped uint64, err error) {
	w := bufio.NewWriter(to)
	query.Set("page_size", strconv.Itoa(auditPage))
	for {
		var page auditRecords
		if _, err := c.Get(ctx, "/audit", query, &page); err != nil {
			return count, dropped, err
		}
		dropped = page.Dropped
		for _, r := range page.Records {
			if _, err := w.Write(append(r, '\n')); err != nil {
				return count, dropped, err
			}
			count++
		}
		if page.Next == "" {
			return count, dropped, w.Flush()
		}
		query.Set("page_token", page.Next)
	}
}
