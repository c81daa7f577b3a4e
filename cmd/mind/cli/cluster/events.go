package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// change is one event of the cluster.
type change struct {
	Index      uint64    `json:"index"`
	Topic      string    `json:"topic"`
	Time       time.Time `json:"time"`
	Job        string    `json:"job_id"`
	Attempt    int       `json:"attempt"`
	From       string    `json:"status_from"`
	To         string    `json:"status_to"`
	Stopping   string    `json:"stopping"`
	Queue      string    `json:"queue"`
	Nodes      []string  `json:"nodes"`
	NodeFrom   string    `json:"node_from"`
	NodeTo     string    `json:"node_to"`
	Granted    bool      `json:"granted"`
	Checkpoint string    `json:"checkpoint_id"`
	Name       string    `json:"name"`
	Transfer   string    `json:"transfer"`
}

func newEvents() *cobra.Command {
	var (
		topics []string
		since  int64
		follow bool
		wait   time.Duration
	)
	cmd := rest.Command(&cobra.Command{
		Use:   "events",
		Short: "Show changes to jobs, nodes, queues, Cores, executions and more",
		Long: `Shows the changes of the cluster's state, one line for each event, in the order of the state. With -f it runs until it is
interrupted; if the connection breaks, it resumes without gap or repeat. Without -f it shows the events that the cluster
still remembers (of the last minutes), starting after --since-index if given, and ends.`,
		Example: `  mind events
  mind events -f
  mind events -f --topic node
  mind events --since-index 4711 -o json`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		query := url.Values{}
		for _, t := range topics {
			query["topic"] = append(query["topic"], strings.Split(t, ",")...)
		}
		if since >= 0 {
			query.Set("since_index", strconv.FormatInt(since, 10))
		}
		if !follow {
			if since < 0 {
				query.Set("since_index", "0")
			}
			newest := newestIndex(ctx, c)
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			quiet := time.AfterFunc(wait, cancel)
			defer quiet.Stop()
			err := c.Stream(ctx, "/events", query, func(e rest.Event) error {
				quiet.Reset(wait)
				if at, err := strconv.ParseUint(indexOf(e), 10, 64); err == nil && newest > 0 && at > newest {
					return errCaughtUp
				}
				return printChange(cmd.OutOrStdout(), output, e)
			})
			if errors.Is(err, errCaughtUp) || errors.Is(err, context.Canceled) && cmd.Context().Err() == nil {
				return nil
			}
			return err
		}
		return c.Stream(ctx, "/events", query, func(e rest.Event) error { return printChange(cmd.OutOrStdout(), output, e) })
	})
	f := cmd.Flags()
	f.StringArrayVar(&topics, "topic", nil, "only events about "+strings.Join(slices.Concat(status.MindTopics, status.CoreTopics), ", ")+"; repeatable")
	f.Int64Var(&since, "since-index", -1, "start after this state index (default: the oldest remembered event, with -f now)")
	rest.HideDefaults(f, "since-index")
	f.BoolVarP(&follow, "follow", "f", false, "run until interrupted")
	f.DurationVar(&wait, "quiet", 2*time.Second, "without -f: end after this time without an event")
	return cmd
}

// errCaughtUp ends a stream that has shown all events up to the time of the call.
var errCaughtUp = errors.New("these are all events so far")

// newestIndex returns the newest index of the state; 0: unknown.
func newestIndex(ctx context.Context, c *rest.Client) uint64 {
	body, header, err := c.Download(ctx, "/jobs?limit=1")
	if err != nil {
		return 0
	}
	defer body.Close()
	index, _ := strconv.ParseUint(header.Get("X-Mind-Index"), 10, 64)
	return index
}

// indexOf returns the state index of an event.
func indexOf(e rest.Event) string {
	var c struct {
		Index json.Number `json:"index"`
	}
	_ = json.Unmarshal([]byte(e.Data), &c)
	return c.Index.String()
}

func printChange(w io.Writer, output string, e rest.Event) error {
	if output != "table" {
		return render.Line(w, output, e.Data)
	}
	var c change
	if err := json.Unmarshal([]byte(e.Data), &c); err != nil {
		return fmt.Errorf("cannot read an event: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s %8d %-11s %s\n", render.Clock(c.Time), c.Index, c.Topic, c.text())
	return err
}

// text describes an event in a few words.
func (c *change) text() string {
	on := ""
	if len(c.Nodes) > 0 {
		on = " on " + strings.Join(c.Nodes, ",")
	}
	switch c.Topic {
	case "job":
		what := c.From + " -> " + c.To
		if c.From == c.To {
			what = c.To + " changed"
		}
		if c.From == "" {
			what = "new, " + c.To
		}
		if c.Transfer != "" {
			what = c.To + ", " + c.Transfer
		}
		if c.Stopping != "" {
			what += " (stopping: " + c.Stopping + ")"
		}
		return c.Job + " " + what + on
	case "lease":
		if c.Granted {
			return c.Job + " granted" + on
		}
		return c.Job + " ended" + on
	case "checkpoint":
		return c.Job + " " + c.Checkpoint + on
	case "node":
		if c.NodeFrom == "" || c.NodeFrom == c.NodeTo {
			return strings.Join(c.Nodes, ",") + " " + c.NodeTo
		}
		return strings.Join(c.Nodes, ",") + " " + c.NodeFrom + " -> " + c.NodeTo
	}
	return c.Name
}
