package cores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

func newStart() *cobra.Command {
	return newControl("start", "Start a Core", `Starts a Core, so that it can be called. One with an error starts again, and so does a stopped one: its executions go on where they stood.`)
}

func newStop() *cobra.Command {
	return newControl("stop", "Stop a Core; its executions are held", `Stops a Core. It takes no calls and no events, and its executions are held where they are until it is started again. Their jobs and timers go on.`)
}

func newRestart() *cobra.Command {
	return newControl("restart", "Stop a Core and start it again", `Restarts a Core. Its executions go on where they stood.`)
}

func newPause() *cobra.Command {
	return newControl("pause", "Hold a Core and its executions", `Pauses a Core. It takes no calls and no events, and its executions are held where they are until it is resumed. Their jobs and timers go on.`)
}

func newResume() *cobra.Command {
	return newControl("resume", "Let a paused Core go on", `Lets a paused Core and its executions go on.`)
}

func newControl(verb, short, long string) *cobra.Command {
	var wait bool
	cmd := rest.Command(&cobra.Command{
		Use: verb + " CORE", Short: short, Long: long,
		Example: "  mind core " + verb + " nightly --wait",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: completeCores,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		var got core
		data, err := c.Post(ctx, corePath(args[0])+"/"+verb, nil, "", &got)
		if err != nil {
			return err
		}
		if wait {
			if data, err = settled(ctx, c, got.ID); err != nil {
				return err
			}
			if err := json.Unmarshal(data, &got); err != nil {
				return fmt.Errorf("reading the Core: %w", err)
			}
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", got.Slug, got.Status)
		return nil
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "return when it is done; exit code 1 if the Core has an error then")
	return cmd
}

// settled waits until a Core neither starts nor stops. A Core that has an error then is one here.
func settled(ctx context.Context, c *rest.Client, id string) (json.RawMessage, error) {
	got, data, err := rest.Poll(ctx, c, corePath(id), func(k *core) (bool, error) {
		return k.Status != "starting" && k.Status != "restarting" && k.Status != "stopping", nil
	})
	switch {
	case errors.Is(err, context.Canceled):
		return nil, exit.Interrupted("interrupted; `mind core show " + id + "` shows how far it is")
	case err != nil:
		return nil, err
	case got.Status == "error" || got.Status == "crashed":
		return nil, fmt.Errorf("%s is in error: %s", got.Slug, got.Error)
	}
	return data, nil
}
