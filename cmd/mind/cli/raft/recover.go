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
		Short: "Let a cluster go on whose majority is gone for good",
		Long: `Begins a new life of a cluster from the data of one coordinator, when a majority of the voters is lost for good and no leader can be
elected any more. Run it on the coordinator that has the newest data (mind raft verify says up to which index), while it is
stopped. Afterwards start it as always; the others join by themselves when they are started with empty data directories.

All that this coordinator has in its log is kept: every acknowledged job that it holds is there. What only the lost coordinators had is
lost. So that nothing lives twice, fencing tokens, ids and terms begin beyond all that they can have given out, and jobs
are placed again only when every node has come back and said what it runs, or was forgotten (mind node forget). Running
tasks run on, and nodes come back by themselves.

The data is kept as it was beside the new one.`,
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
				return exit.Misuse(errors.New("give --i-know-others-are-dead: a coordinator that is not named with --voter and comes back with its old data would be a second cluster, " +
					"and jobs would run twice. Empty their data directories before they are started again"))
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
	f.StringArrayVar(&voters, "voter", nil, "voter of the new life, ID=RAFT_ADDR: this coordinator; others only if they have their disks")
	f.BoolVar(&sure, "i-know-others-are-dead", false, "no other coordinator will run again with the data that it has")
	f.StringVar(&store, "log-store", "", "wal or boltdb (default: the one that is there)")
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

// whoami is who runs this command, for the audit log.
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
