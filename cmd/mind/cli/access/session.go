package access

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// sessionsPath is where a gateway has the sessions.
const sessionsPath = "/v1/sessions"

func newSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List and revoke sessions of browsers",
		Long: `Lists and revokes sessions of browsers.

A user who signs in with a browser gets a session for 12 hours at most. It has the permissions of the token that the user signed in
with. One that was revoked ends within a second at every gateway, with all of its event streams.`,
		Example: `  mind session list
  mind session list --all`,
	}
	cmd.AddCommand(newSessionList(), newSessionRevoke())
	return cmd
}

func newSessionList() *cobra.Command {
	var tenant string
	var all bool
	cmd := rest.Command(&cobra.Command{
		Use:   "list",
		Short: "List your sessions, or those of a tenant",
		Long:  "Lists your sessions, or those of a tenant: the newest 1,000, newest first.",
		Example: `  mind session list
  mind session list --all
  mind session list --tenant acme`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Sessions []struct {
				ID         string     `json:"session_id"`
				User       string     `json:"user_id"`
				CreatedAt  *time.Time `json:"created_at"`
				ExpiresAt  *time.Time `json:"expires_at"`
				LastUsedAt *time.Time `json:"last_used_at"`
				Address    string     `json:"address"`
				UserAgent  string     `json:"user_agent"`
			} `json:"sessions"`
		}
		query := url.Values{}
		if all {
			query.Set("all", strconv.FormatBool(all))
		}
		if tenant != "" {
			query.Set("tenant_id", tenant)
		}
		data, err := c.Get(ctx, sessionsPath, query, &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "SESSION", "USER", "AGE", "EXPIRES", "USED", "ADDRESS", "BROWSER")
		for _, s := range got.Sessions {
			expires, used := "", "never"
			if s.ExpiresAt != nil {
				expires = render.Time(*s.ExpiresAt)
			}
			if s.LastUsedAt != nil {
				used = render.Ago(s.LastUsedAt) + " ago"
			}
			t.Row(s.ID, s.User, render.Ago(s.CreatedAt), expires, used, s.Address, s.UserAgent)
		}
		return t.Flush()
	})
	cmd.Flags().BoolVar(&all, "all", false, "sessions of all users of your tenant; takes scaimind:cluster_admin")
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant whose sessions to list; for operators")
	return cmd
}

func newSessionRevoke() *cobra.Command {
	var tenant string
	cmd := rest.Command(&cobra.Command{
		Use:   "revoke SESSION",
		Short: "End a session, by its id in the list",
		Long:  "Ends a session of yours; with scaimind:cluster_admin, one of any user of your tenant. It ends within a second at every gateway.",
		Example: `  mind session list
  mind session revoke ses_1k0g00`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeSessions,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		data, err := c.Call(ctx, http.MethodDelete, sessionsPath+"/"+url.PathEscape(args[0]), tenantQuery(tenant), nil, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s ended\n", args[0])
		return nil
	})
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant of the session; for operators")
	return cmd
}

// completeSessions completes ids of sessions.
func completeSessions(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, args, sessionsPath, "sessions", "session_id", "user_id")
}
