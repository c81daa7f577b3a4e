package raft

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/coordinator/recovery"
	data "github.com/mindcoordinator/mind/raftnode/recovery"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

func newRaftRecover() *cobra.Command {
	var dir, store, output string
	var voters []string
	var sure bool
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Recover a cluster that has lost its majority permanently",
		Long: `Restarts a cluster from the data of one coordinator, when a majority of the voters is permanently lost and no leader can be
elected. Run it on the coordinator with the newest data (mind raft verify shows the last index) while that coordinator is
stopped. Then start it as usual; the others join automatically when they are started with empty data directories.

Everything in the log of this coordinator is kept, including every acknowledged job in it. Entries
that only the lost coordinators had are lost. To make sure that nothing runs twice, fencing tokens, ids and terms start beyond any that the old cluster can have
issued, and jobs are placed again only when every node has come back and reported what it runs, or was forgotten (mind node
forget). Running tasks keep running, and nodes come back by themselves.

The old data is kept beside the new data.`,
		Example: `  mind raft verify --data-dir /var/lib/mind          # on each coordinator that still has a disk
  mind raft recover --data-dir /var/lib/mind --voter c3=10.0.0.3:7003 --i-know-others-are-dead`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := render.CheckOutput(output); err != nil {
				return exit.Misuse(err)
			}
			servers, err := parseVoters(voters)
			if err != nil {
				return exit.Misuse(err)
			}
			if !sure {
				return exit.Misuse(errors.New("give --i-know-others-are-dead: a coordinator that is not given with --voter and starts with its old data would form a second cluster, " +
					"and jobs would run twice. Empty the data directories of the others before you start them again"))
			}
			done, err := recovery.Recover(cmd.Context(), dir, store, servers, whoami())
			switch {
			case errors.Is(err, verify.ErrInUse):
				return fmt.Errorf("a coordinator runs on %s: stop it first", dir)
			case err != nil:
				return fmt.Errorf("recovering %s: %w", dir, err)
			}
			if output != "table" {
				return render.Value(cmd.OutOrStdout(), output, done)
			}
			f := render.NewFacts(cmd.OutOrStdout())
			f.Add("recovered", fmt.Sprintf("index %d, term %d, hash %s", done.From.Index, done.From.Term, done.From.Hash))
			f.Add("goes on at", fmt.Sprintf("index %d, term %d, hash %s", done.Index, done.Term, done.Hash))
			f.Add("voters", strings.Join(done.Voters, " "))
			f.Add("waits for", fmt.Sprintf("%d nodes; %d jobs are held until they have come back", done.Nodes, done.Jobs))
			f.Add("kept", done.Kept)
			if err := f.Flush(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "mind: start this coordinator now; when it is ready, empty the data directories of the others and start them")
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "", "data directory of the coordinator")
	f.StringArrayVar(&voters, "voter", nil, "voter of the recovered cluster, ID=RAFT_ADDR: this coordinator; others only if they still have their data; repeatable")
	f.BoolVar(&sure, "i-know-others-are-dead", false, "confirm that no other coordinator will start again with its old data")
	f.StringVar(&store, "log-store", "", "wal or boltdb (default: the one in use)")
	f.StringVarP(&output, "output", "o", "table", "table, json or yaml")
	_ = cmd.MarkFlagRequired("data-dir")
	_ = cmd.MarkFlagRequired("voter")
	return cmd
}

func parseVoters(texts []string) ([]data.Server, error) {
	var voters []data.Server
	for _, text := range texts {
		id, addr, ok := strings.Cut(text, "=")
		if _, _, err := net.SplitHostPort(addr); !ok || id == "" || err != nil {
			return nil, fmt.Errorf("--voter %s: it must be ID=HOST:PORT, with the raft_addr of the coordinator, such as c3=10.0.0.3:7003", text)
		}
		voters = append(voters, data.Server{ID: id, Addr: addr})
	}
	return voters, nil
}

// whoami returns the name of the user who runs this command, for the audit log.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
