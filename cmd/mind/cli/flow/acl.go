package flow

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// acl is a right on a flow as the gateway shows it.
type acl struct {
	ID        string     `json:"id"`
	Type      string     `json:"principal_type"`
	Principal string     `json:"principal_id"`
	Level     string     `json:"level"`
	By        string     `json:"granted_by"`
	At        *time.Time `json:"granted_at"`
}

func newACL() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acl",
		Short: "List, grant, change and revoke rights on a flow",
		Long: `Lists, grants, changes and revokes rights on a flow: view, edit, deploy and admin, each of which has those before it. The owner,
and callers with scaicore:admin, have every right; they are in no list.`,
		Example: `  mind flow acl grant ticket-triage bob edit`,
	}
	cmd.AddCommand(newACLList(), newACLGrant(), newACLChange(), newACLRevoke())
	return cmd
}

func newACLList() *cobra.Command {
	return about(&cobra.Command{
		Use: "list FLOW", Short: "List the rights on a flow that were granted", Example: `  mind flow acl list ticket-triage`, Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, _ []string) error {
		var all []acl
		data, err := c.Get(ctx, flowPath(id, "acls"), nil, &all)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "RIGHT", "OF", "NAME", "LEVEL", "BY", "AGE").Fit(render.Width(cmd.OutOrStdout()))
		for i := range all {
			a := &all[i]
			t.Row(a.ID, a.Type, a.Principal, a.Level, a.By, render.Ago(a.At))
		}
		return t.Flush()
	})
}

func newACLGrant() *cobra.Command {
	var group bool
	cmd := about(&cobra.Command{
		Use:   "grant FLOW NAME LEVEL",
		Short: "Give a user or a group a right on a flow",
		Long: `Gives a user, or with --group a group, a right on a flow: view, edit, deploy or admin. The name is not checked, because the
identity provider has the users and the groups. mind flow acl change changes a right that is there.`,
		Example: `  mind flow acl grant ticket-triage bob edit
  mind flow acl grant ticket-triage ml-team deploy --group`,
		Args: cobra.ExactArgs(3),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, args []string) error {
		kind := "user"
		if group {
			kind = "group"
		}
		var made acl
		data, err := c.Post(ctx, flowPath(id, "acls"), map[string]any{"principal_type": kind, "principal_id": args[0], "level": args[1]}, "", &made)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: the %s %s has the right %s; `mind flow acl revoke %s %s` takes it away\n", made.ID, kind, args[0], made.Level, id, made.ID)
		return nil
	})
	cmd.Flags().BoolVar(&group, "group", false, "the name is that of a group")
	return cmd
}

func newACLChange() *cobra.Command {
	return about(&cobra.Command{
		Use: "change FLOW RIGHT LEVEL", Short: "Change a right on a flow", Example: `  mind flow acl change ticket-triage acl_1k0g00 deploy`, Args: cobra.ExactArgs(3),
		Long: `Gives the user or the group of a right another one, from the next call on: view, edit, deploy or admin. RIGHT is an id of mind flow
acl list.`,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, args []string) error {
		var changed acl
		data, err := c.Call(ctx, http.MethodPatch, flowPath(id, "acls", args[0]), nil, map[string]any{"level": args[1]}, rest.NewKey(), &changed)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: the %s %s has the right %s\n", changed.ID, changed.Type, changed.Principal, changed.Level)
		return nil
	})
}

func newACLRevoke() *cobra.Command {
	return about(&cobra.Command{
		Use: "revoke FLOW RIGHT", Short: "Take a right on a flow away", Example: `  mind flow acl revoke ticket-triage acl_1k0g00`, Args: cobra.ExactArgs(2),
		Long: `Takes a right on a flow away, from the next call of its user on. RIGHT is an id of mind flow acl list.`,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, id string, args []string) error {
		if _, err := c.Call(ctx, http.MethodDelete, flowPath(id, "acls", args[0]), nil, nil, rest.NewKey(), nil); err != nil {
			return err
		}
		if output != "table" {
			return render.Value(cmd.OutOrStdout(), output, map[string]string{"id": args[0]})
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s revoked\n", args[0])
		return nil
	})
}
