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
		Short: "Save the state to a file, inspect such a file, start a cluster from it",
		Long: `Saves the state of the control plane to a file: jobs, leases, nodes, queues, quotas, tokens (as digests) and the audit log.
Logs, metrics, checkpoints and models are not included.

The file contains the jobs as they were submitted, including their environment variables: protect it like a password.`,
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
		Long: `Saves the state of a coordinator, which includes everything that was acknowledged before the call. The file is checked before
it gets its name, so it is either complete or absent. The audit log records each save and its user (snapshot.save).

Without a leader, --stale saves the state of one coordinator. That state may be old, and the save is not audited.`,
		Example: `  mind raft snapshot save /backup/mind-$(date +%F).snapshot     # daily, from cron`,
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, args []string) error {
		if _, err := os.Stat(args[0]); !force && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s already exists: choose another name, or give --force", args[0])
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
	cmd.Flags().BoolVar(&stale, "stale", false, "save the state of one coordinator when there is no leader")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	_ = cmd.Flags().Set("timeout", "10m")
	cmd.Flags().Lookup("timeout").DefValue = "10m"
	return cmd
}

// saveStream writes a stream to a file, and checks that it is complete before the file gets its name.
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
		return nil, fmt.Errorf("the received snapshot is not valid and was discarded: %w", err)
	}
	return about, file.Commit()
}

func newSnapshotInspect() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Check a saved state and show what it contains",
		Long: `Reads the file, verifies its checksums and the invariants of its state, and summarizes the state. It needs no cluster.
The exit code is 1 if anything is wrong.`,
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
				return fmt.Errorf("%d problems found in %s: do not restore it", len(about.Broken), args[0])
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
		Short: "Start a new cluster from a saved state",
		Long: `Prepares an empty data directory, so that the coordinator that starts with it forms a new cluster from the saved state, as the
only voter. The other coordinators join it when they are started with empty data directories and the same peers.

The new cluster has no record of anything that happened after the state was saved. To make sure that nothing runs twice,
  - all coordinators of the old cluster must be stopped, and must never run again with their data;
  - fencing tokens, ids and terms start beyond those of the old cluster;
  - jobs in the file are placed only when every node in it has come back and reported what it runs, or was forgotten
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
				return exit.Misuse(errors.New("give --new-cluster to confirm that no coordinator of the old cluster runs, or will ever run again with its data"))
			}
			about, err := recovery.PrepareRestore(args[0], dir)
			if err != nil {
				return err
			}
			if err := printSaved(cmd.OutOrStdout(), output, "", about); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "mind: now start only the coordinator of %s; when it is ready, start the others with empty data directories\n", dir)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "", "data directory of the coordinator; must be empty")
	f.BoolVar(&newCluster, "new-cluster", false, "confirm that the old cluster will never run again")
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
		f.Add("", "STALE: saved without a leader; acknowledged writes may be missing")
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
