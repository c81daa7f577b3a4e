package access

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke API tokens",
		Long: `Creates, lists and revokes API tokens.

A token lets its holder act as one user of one tenant, with the permissions that it was given. It is shown once, when it is
created: the cluster keeps only its digest. Creating tokens requires the permission scaimind:cluster_admin, and mind:operator
for another tenant; the token of mind dev has both.`,
		Example: `  mind token create --user ann --permission view
  mind token list`,
	}
	cmd.AddCommand(newTokenCreate(), newTokenList(), newTokenRevoke())
	return cmd
}

func newTokenCreate() *cobra.Command {
	var (
		tenant, user, name string
		permissions        []string
		expires            time.Duration
	)
	cmd := rest.Command(&cobra.Command{
		Use:   "create --permission P [--permission P ...]",
		Short: "Create a token and print only the token",
		Example: `  mind token create --tenant acme --user ann --permission scaimind:view --permission scaimind:manage
  mind token create --user ann --permission scaicore:view,scaicore:checkpoint_resolve
  MIND_TOKEN=$(mind token create --permission view --expires 24h) mind jobs`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		body := map[string]any{"permissions": fullPermissions(permissions)}
		for key, value := range map[string]string{"tenant_id": tenant, "user_id": user, "name": name} {
			if value != "" {
				body[key] = value
			}
		}
		if cmd.Flags().Changed("expires") {
			if expires <= 0 {
				return exit.Misuse(fmt.Errorf("--expires %s: it must be a duration from now, such as 24h", expires))
			}
			v, err := request.Seconds(expires)()
			if err != nil {
				return exit.Misuse(fmt.Errorf("--expires: %w", err))
			}
			body["expires_in_seconds"] = v
		}
		var got struct {
			Token string `json:"token"`
			ID    string `json:"token_id"`
		}
		data, err := c.Post(ctx, "/tokens", body, "", &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), got.Token); err != nil {
			return fmt.Errorf("the token was created but could not be printed: revoke %s with `mind token revoke` and create another: %w", got.ID, err)
		}
		return nil
	})
	f := cmd.Flags()
	f.StringVar(&tenant, "tenant", "", "tenant of the token; default: your own")
	f.StringVar(&user, "user", "", "user for whom the token acts; default: you")
	f.StringVar(&name, "name", "", "what the token is for; shown in the list")
	f.StringArrayVar(&permissions, "permission", nil, "scaimind:view, :manage, :cluster_admin or :evaluate, with or without scaimind; of Cores scaicore:view, :manage, :checkpoint_resolve or :admin; repeatable")
	f.DurationVar(&expires, "expires", 0, "how long the token is valid, such as 24h; default: until it is revoked")
	_ = cmd.MarkFlagRequired("permission")
	_ = cmd.RegisterFlagCompletionFunc("permission", cobra.FixedCompletions(grantable, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// grantable are the permissions that completion offers. Nothing requires scaicore:debug and scaicore:delegate yet.
var grantable = []string{
	"scaimind:view", "scaimind:manage", "scaimind:cluster_admin", "scaimind:evaluate",
	"scaicore:view", "scaicore:manage", "scaicore:checkpoint_resolve", "scaicore:admin",
}

// fullPermissions accepts permissions without the module prefix, and several separated by commas.
func fullPermissions(given []string) []string {
	var all []string
	for _, g := range given {
		for p := range strings.SplitSeq(g, ",") {
			if p = strings.TrimSpace(p); p != "" && !strings.Contains(p, ":") {
				p = "scaimind:" + p
			}
			all = append(all, p)
		}
	}
	return all
}

func newTokenList() *cobra.Command {
	var tenant string
	cmd := rest.Command(&cobra.Command{
		Use:     "list",
		Short:   "List the tokens of a tenant, without their secrets",
		Example: `  mind token list --tenant acme`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Tokens []struct {
				ID          string     `json:"token_id"`
				Name        string     `json:"name"`
				Tenant      string     `json:"tenant_id"`
				User        string     `json:"user_id"`
				Permissions []string   `json:"permissions"`
				CreatedAt   *time.Time `json:"created_at"`
				ExpiresAt   *time.Time `json:"expires_at"`
				LastUsedAt  *time.Time `json:"last_used_at"`
			} `json:"tokens"`
		}
		data, err := c.Get(ctx, "/tokens", tenantQuery(tenant), &got)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "TOKEN", "NAME", "TENANT", "USER", "PERMISSIONS", "AGE", "EXPIRES", "USED")
		for _, k := range got.Tokens {
			expires := "never"
			if k.ExpiresAt != nil {
				expires = render.Time(*k.ExpiresAt)
			}
			used := "never"
			if k.LastUsedAt != nil {
				used = render.Ago(k.LastUsedAt) + " ago"
			}
			t.Row(k.ID, k.Name, k.Tenant, k.User, strings.Join(k.Permissions, ","), render.Ago(k.CreatedAt), expires, used)
		}
		return t.Flush()
	})
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant whose tokens to list; default: your own")
	return cmd
}

func newTokenRevoke() *cobra.Command {
	var tenant string
	cmd := rest.Command(&cobra.Command{
		Use:   "revoke TOKEN",
		Short: "Revoke a token, by its id in the list",
		Long:  "Revokes a token. Gateways may accept it for another 10 seconds.",
		Example: `  mind token list
  mind token revoke tok_1k0g00`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTokens,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		data, err := c.Call(ctx, http.MethodDelete, "/tokens/"+url.PathEscape(args[0]), tenantQuery(tenant), nil, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s revoked\n", args[0])
		return nil
	})
	cmd.Flags().StringVar(&tenant, "tenant", "", "tenant of the token; default: your own")
	return cmd
}

func tenantQuery(tenant string) url.Values {
	if tenant == "" {
		return nil
	}
	return url.Values{"tenant_id": {tenant}}
}

// completeTokens completes ids of tokens.
func completeTokens(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return rest.CompleteNames(cmd, args, "/tokens", "tokens", "token_id", "name")
}
