package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// window is a reservation or a maintenance of some nodes.
type window struct {
	Name   string    `json:"name"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	Nodes  []string  `json:"nodes"`
	Reason string    `json:"reason"`
	Tenant string    `json:"tenant_id"`
	GPUs   int       `json:"gpus"`
	State  string    `json:"state"`
}

// span has the flags for the time of a window.
type span struct {
	from string
	last request.Duration
}

func (s *span) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.from, "from", "", "when it begins: a time such as 2026-07-01T08:00:00Z, or from now on, such as 2h (default: now)")
	cmd.Flags().Var(&s.last, "for", "how long it lasts, such as 4h or 2d")
}

// into adds the flags to the body of a request.
func (s *span) into(body map[string]any, now time.Time) error {
	last := time.Duration(s.last)
	if last < time.Second {
		return exit.Misuse(errors.New("give how long it lasts: --for 4h"))
	}
	body["duration_seconds"] = int64(last / time.Second)
	if s.from == "" {
		return nil
	}
	at, err := request.Ahead(s.from, now)
	if err != nil {
		return exit.Misuse(fmt.Errorf("--from %w", err))
	}
	body["from"] = at.UTC().Format(time.RFC3339)
	return nil
}

func newMaintenance() *cobra.Command {
	cmd := rest.Command(&cobra.Command{
		Use:   "maintenance",
		Short: "Plan maintenance of nodes, and list what is planned",
		Long: `Lists the maintenances that are planned or going on.

From the moment a maintenance is planned, a job is placed on its nodes only if its time limit (--time-limit) ends before it
begins, or if it may be preempted (--preemptible). When it begins, its nodes are drained: jobs get their notice, save a checkpoint
and go on elsewhere; a job that may not be restarted runs to its end. When it is over, the nodes are enabled by themselves.

Planning one requires the permission scaimind:cluster_admin.`,
		Example: `  mind maintenance
  mind maintenance add kernel --nodes 'rack7-*' --from 2026-07-01T08:00:00Z --for 4h --reason "new kernel"
  mind maintenance delete kernel`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Windows []window `json:"maintenance"`
		}
		data, err := c.Get(ctx, "/maintenance", nil, &got)
		if err != nil {
			return err
		}
		return printWindows(cmd.OutOrStdout(), output, data, got.Windows...)
	})
	cmd.AddCommand(newMaintenanceAdd(), newWindowDelete("/maintenance", "maintenance delete", "Call a maintenance off, or end it; its nodes are enabled"))
	return cmd
}

func newMaintenanceAdd() *cobra.Command {
	var (
		nodes  []string
		reason string
		when   span
	)
	cmd := rest.Command(&cobra.Command{
		Use:     "add NAME --nodes PATTERN --for DURATION",
		Short:   "Plan a maintenance of nodes",
		Example: `  mind maintenance add kernel --nodes 'rack7-*' --from 12h --for 4h --reason "new kernel"`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		if len(nodes) == 0 {
			return exit.Misuse(errors.New("give the nodes: --nodes 'rack7-*'"))
		}
		body := map[string]any{"nodes": nodes, "reason": reason}
		if err := when.into(body, time.Now()); err != nil {
			return err
		}
		return putWindow(ctx, cmd, c, output, "/maintenance/"+url.PathEscape(args[0]), body)
	})
	cmd.Flags().StringSliceVar(&nodes, "nodes", nil, "ids of nodes, or patterns with * and ?")
	cmd.Flags().StringVar(&reason, "reason", "", "what for")
	when.bind(cmd)
	return cmd
}

func newReserve() *cobra.Command {
	var (
		nodes                   []string
		tenant, gpuType, reason string
		gpus                    int
		when                    span
	)
	cmd := rest.Command(&cobra.Command{
		Use:   "reserve NAME --gpus N --for DURATION",
		Short: "Reserve GPUs for a tenant and a time",
		Long: `Reserves GPUs for a tenant and a time, on whole nodes that are chosen now.

Until it begins, a job of another tenant is placed on these nodes only if its time limit ends before, or if it may be preempted;
then it is preempted when the reservation begins. While it lasts, only the tenant's jobs are placed there, and they are placed
there first. It is refused when there are not enough nodes that will be free by then.

It requires the permission scaimind:cluster_admin, and mind:operator for another tenant than your own.`,
		Example: `  mind reserve paper --gpus 64 --gpu-type H100 --tenant acme --from 2026-07-01T08:00:00Z --for 48h
  mind reservations
  mind reserve delete paper`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		if gpus <= 0 {
			return exit.Misuse(errors.New("give how many GPUs: --gpus 8"))
		}
		body := map[string]any{"gpus": gpus, "reason": reason}
		if len(nodes) > 0 {
			body["nodes"] = nodes
		}
		if gpuType != "" {
			body["gpu_type"] = gpuType
		}
		if tenant != "" {
			body["tenant_id"] = tenant
		}
		if err := when.into(body, time.Now()); err != nil {
			return err
		}
		return putWindow(ctx, cmd, c, output, "/reservations/"+url.PathEscape(args[0]), body)
	})
	f := cmd.Flags()
	f.IntVar(&gpus, "gpus", 0, "number of GPUs; whole nodes are reserved, as few as have them")
	f.StringVar(&gpuType, "gpu-type", "", "type of the GPUs, such as H100")
	f.StringVar(&tenant, "tenant", "", "the tenant that may use them (default: your own)")
	f.StringSliceVar(&nodes, "nodes", nil, "only of these nodes: ids, or patterns with * and ?")
	f.StringVar(&reason, "reason", "", "what for")
	when.bind(cmd)
	cmd.AddCommand(newWindowDelete("/reservations", "reserve delete", "Give up a reservation"))
	return cmd
}

func newReservations() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "reservations",
		Short:   "List the reservations that are to come or in force",
		Example: `  mind reservations`,
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var got struct {
			Windows []window `json:"reservations"`
		}
		data, err := c.Get(ctx, "/reservations", nil, &got)
		if err != nil {
			return err
		}
		return printWindows(cmd.OutOrStdout(), output, data, got.Windows...)
	})
}

func newWindowDelete(path, name, short string) *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:     "delete NAME",
		Short:   short,
		Example: "  mind " + name + " NAME",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, args []string) error {
		data, err := c.Call(ctx, http.MethodDelete, path+"/"+url.PathEscape(args[0]), nil, nil, rest.NewKey(), nil)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is gone\n", args[0])
		return nil
	})
}

func putWindow(ctx context.Context, cmd *cobra.Command, c *rest.Client, output, path string, body map[string]any) error {
	var got window
	data, err := c.Call(ctx, http.MethodPut, path, nil, body, rest.NewKey(), &got)
	if err != nil {
		return err
	}
	return printWindows(cmd.OutOrStdout(), output, data, got)
}

func printWindows(w io.Writer, output string, data json.RawMessage, all ...window) error {
	if output != "table" {
		return render.Data(w, output, data)
	}
	t := render.NewTable(w, "NAME", "STATE", "FROM", "UNTIL", "TENANT", "GPUS", "NODES", "REASON")
	for _, one := range all {
		gpus := ""
		if one.GPUs > 0 {
			gpus = strconv.Itoa(one.GPUs)
		}
		nodes := strings.Join(one.Nodes, ",")
		if len(one.Nodes) > 4 {
			nodes = fmt.Sprintf("%s and %d more", strings.Join(one.Nodes[:3], ","), len(one.Nodes)-3)
		}
		t.Row(one.Name, one.State, render.Time(one.From), render.Time(one.Until), one.Tenant, gpus, nodes, one.Reason)
	}
	return t.Flush()
}
