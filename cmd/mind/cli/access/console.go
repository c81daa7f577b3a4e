package access

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/target"
)

func newConsole() *cobra.Command {
	var t target.Flags
	var signIn bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open the console, the pages of Mind for browsers",
		Long: `Prints the address of the console, and opens it in a browser if this machine has one.

With --sign-in the address has your token behind a #, with which the page signs you in: by itself on this machine, elsewhere it asks.
It is then only printed: other users of this machine could read it in the arguments of a browser. The part behind the # is never sent
to a server.`,
		Example: `  mind console
  mind console --sign-in`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.Warnings = cmd.ErrOrStderr()
			cluster, err := t.Resolve()
			if err != nil {
				return err
			}
			if signIn {
				fmt.Fprintln(cmd.OutOrStdout(), cluster.Console(true))
				return nil
			}
			fmt.Fprintln(cmd.OutOrStdout(), cluster.Console(false))
			return open(cmd.Context(), cluster.Console(false))
		},
	}
	t.Bind(cmd)
	cmd.Flags().BoolVar(&signIn, "sign-in", false, "print an address that signs you in, and open nothing")
	return cmd
}

// open shows an address in the browser of the user. Without a browser there is nothing to do: the address is printed.
func open(ctx context.Context, address string) error {
	opener := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		opener = "open"
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return nil
	}
	program, err := exec.LookPath(opener)
	if err != nil {
		return nil
	}
	if err := exec.CommandContext(ctx, program, address).Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s could not open a browser (%w): open the address yourself", opener, err)
	}
	return nil
}
