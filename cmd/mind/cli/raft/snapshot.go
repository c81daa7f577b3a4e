package raft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	coordinators "github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/coordinator/recovery"
	"github.com/mindcoordinator/mind/durable"
)

func newRaftSnapshot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save the whole state to a file, look into such a file, begin a cluster from it",
		Long: `Saves the whole state of the control plane to a file: jobs, leases, nodes, queues, quotas, tokens (as digests), the audit log.
Logs, metrics, checkpoints and models are not in it.

Whoever has the file can read what jobs were submitted with, their environments included: keep it like a password.`,
		Example: `  mind raft snapshot save /backup/mind-$(date +%F).snapshot
  mind raft snapshot inspect /backup/mind-2026-01-31.snapshot
  mind raft snapshot restore /backup/mind-2026-01-31.snapshot --data-dir /var/lib/mind --new-cluster`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSnapshotSave(), newSnapshotInspect(), newSnapshotRestore())
	return cmd
}

func newSnapshotSave() *cobra.Command {
	o := &operator{}
	var stale, force bool
	cmd := o.with(&cobra.Command{
		Use:   "save FILE",
		Short: "Save the state of a running cluster to a file",
		Long: `Asks a coordinator for its state, once it has everything that was acknowledged before the call. The file is checked before it gets
its name, so there is a whole one or none. That it was saved, and by whom, is in the audit log (snapshot.save).

Without a leader --stale saves what one coordinator has. That may be old, and is not audited.`,
		Example: `  mind raft snapshot save /backup/mind-$(date +%F).snapshot     # daily, from cron`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, args []string) error {
		if _, err := os.Stat(args[0]); !force && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already: choose another name, or give --force", args[0])
		}
		call := coordinators.Call{}
		if stale {
			call.Consistency = status.Stale
		}
		stream, err := c.Operators().SaveSnapshot(coordinators.WithCall(ctx, call), &v1.SaveSnapshotRequest{})
		if err != nil {
			return err
		}
		about, err := saveStream(stream.Recv, args[0])
		if err != nil {
			return err
		}
		return printSaved(cmd.OutOrStdout(), o.output, args[0], about)
	})
	cmd.Flags().BoolVar(&stale, "stale", false, "save what one coordinator has, when there is no leader")
	cmd.Flags().BoolVar(&force, "force", false, "write over a file that is there")
	_ = cmd.Flags().Set("timeout", "10m")
	cmd.Flags().Lookup("timeout").DefValue = "10m"
	return cmd
}

// saveStream writes what comes to a file, and looks whether it is whole before the file gets its name.
func saveStream(next func() (*v1.SaveSnapshotResponse, error), path string) (*recovery.SavedState, error) {
	file, err := durable.Create(path, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Discard()
	for {
		part, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			_, err = file.Write(part.GetData())
		}
		if err != nil {
			return nil, err
		}
	}
	about, err := recovery.Inspect(file.Name())
	if err != nil {
		return nil, fmt.Errorf("what came is not whole, and is not kept: %w", err)
	}
	return about, file.Commit()
}

func newSnapshotInspect() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what is in a saved state, and whether it is whole",
		Long: `Reads the whole file, verifies its checksums and the invariants of the state in it, and says what there is. It needs no cluster.
Exits with 1 when something is wrong.`,
		Example: `  mind raft snapshot inspect /backup/mind-2026-01-31.snapshot -o json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := render.CheckOutput(output); err != nil {
				return exit.Misuse(err)
			}
			about, err := recovery.Inspect(args[0])
			if err != nil {
				return err
			}
			if err := printSaved(cmd.OutOrStdout(), output, "", about); err != nil {
				return err
			}
			if len(about.Broken) > 0 {
				return fmt.Errorf("%d things are wrong with the state in %s: do not restore it", len(about.Broken), args[0])
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	return cmd
}

func newSnapshotRestore() *cobra.Command {
	var dir, output string
	var newCluster bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Begin a new cluster from a saved state",
		Long: `Has the coordinator of an empty data directory begin a new cluster from a saved state at its next start, as the only voter. The other
coordinators join it by themselves when they are started with empty data directories and the same peers.

The new cluster knows nothing of what happened after the state was saved. So that nothing lives twice,
  - all coordinators of the old cluster must be stopped, and never run again with their data;
  - fencing tokens, ids and terms begin beyond those of the old cluster;
  - jobs that are in the file are placed only when every node in it has come back and said what it runs, or was forgotten
    (mind node forget). Nodes come back by themselves.`,
		Example: `  # on every coordinator: stop it, and move its data aside
  mv /var/lib/mind /var/lib/mind.old
  # on one of them
  mind raft snapshot restore /backup/mind-2026-01-31.snapshot --data-dir /var/lib/mind --new-cluster
  # start that one, wait until it is ready, then start the others`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := render.CheckOutput(output); err != nil {
				return exit.Misuse(err)
			}
			if !newCluster {
				return exit.Misuse(errors.New("give --new-cluster to say that no coordinator of the old cluster runs, nor ever will with its data"))
			}
			about, err := recovery.PrepareRestore(args[0], dir)
			if err != nil {
				return err
			}
			if err := printSaved(cmd.OutOrStdout(), output, "", about); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "mind: start the coordinator of %s now, alone; start the others, with empty data directories, when it is ready\n", dir)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "", "data directory of the coordinator, without data")
	f.BoolVar(&newCluster, "new-cluster", false, "the old cluster is gone for good")
	f.StringVarP(&output, "output", "o", "table", "table, json or yaml")
	_ = cmd.MarkFlagRequired("data-dir")
	return cmd
}

func printSaved(w io.Writer, output, file string, about *recovery.SavedState) error {
	if output != "table" {
		return render.Value(w, output, about)
	}
	f := render.NewFacts(w)
	f.Add("file", file)
	f.Add("saved", fmt.Sprintf("%s by %s (mind %s)", about.At.Format(time.RFC3339), about.By, cmp.Or(about.Program, "unknown")))
	if about.Stale {
		f.Add("", "STALE: without a leader; it may lack what was acknowledged before")
	}
	f.Add("state", fmt.Sprintf("index %d, term %d, hash %s", about.Index, about.Term, about.Hash))
	var members []string
	for _, m := range about.Members {
		members = append(members, m.ID+"="+m.RaftAddr)
	}
	f.Add("coordinators", strings.Join(members, " "))
	var jobs []string
	for _, state := range slices.Sorted(maps.Keys(about.Jobs)) {
		jobs = append(jobs, fmt.Sprintf("%d %s", about.Jobs[state], state))
	}
	f.Add("jobs", cmp.Or(strings.Join(jobs, ", "), "none"))
	f.Add("nodes", strconv.Itoa(about.Nodes))
	f.Add("queues", strconv.Itoa(about.Queues))
	f.Add("tokens", strconv.Itoa(about.Tokens))
	if err := f.Flush(); err != nil {
		return err
	}
	for _, broken := range about.Broken {
		fmt.Fprintln(w, "WRONG: "+broken)
	}
	return nil
}
