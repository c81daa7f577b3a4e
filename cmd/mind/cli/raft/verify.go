package raft

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/coordinator/recovery"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

func newRaftVerify() *cobra.Command {
	var dir, store string
	var at uint64
	var reach bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the coordinators of a cluster, or the data of one that is stopped",
		Long: `Without --data-dir it asks every coordinator: whether it answers, who leads, whether all know the same members, whether the voters that
answer are a majority, and whether their states are the same.

With --data-dir it walks the log and the snapshots of a coordinator that is stopped, and changes nothing. It reads every entry
and every snapshot, looks for gaps, for terms that go back, for damaged pages and wrong checksums, replays the log, compares it
with the snapshots, and checks the invariants of the state. It refuses while the coordinator runs. It also tries to reach
the other members that the log names (--reach=false: not), and says when no majority of the voters can be there.

The hash is the one that replicas compare: with --at INDEX the data of two replicas can be held against each other. The
end of a log need not be committed yet, so compare at an index that both have and that was applied.

Exits with 1 when something is wrong.`,
		Example: `  mind raft verify
  mind raft verify --data-dir /var/lib/mind/c2
  mind raft verify --data-dir /var/lib/mind/c2 --at 48213 -o json`,
		Args: cobra.NoArgs,
	}
	o := &operator{}
	o.bind(cmd)
	f := cmd.Flags()
	f.BoolVar(&reach, "reach", true, "with --data-dir: try to reach the other members")
	f.StringVar(&dir, "data-dir", "", "data directory of a coordinator that is stopped")
	f.StringVar(&store, "log-store", "", "wal or boltdb (default: the one that is there)")
	f.Uint64Var(&at, "at", 0, "say the hash at this index too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := render.CheckOutput(o.output); err != nil {
			return exit.Misuse(err)
		}
		if dir == "" {
			return verifyCluster(cmd, o)
		}
		report, err := recovery.Verify(cmd.Context(), dir, store, at)
		if err != nil {
			return fmt.Errorf("verifying %s: %w", dir, err)
		}
		var missing []string
		if reach {
			missing = reachMembers(cmd.Context(), report)
		}
		if o.output != "table" {
			err = render.Value(cmd.OutOrStdout(), o.output, report)
		} else {
			err = verifyTable(cmd.OutOrStdout(), report)
		}
		if err != nil {
			return err
		}
		for _, text := range missing {
			fmt.Fprintln(cmd.ErrOrStderr(), text)
		}
		if !report.Sound() {
			return fmt.Errorf("%d things are wrong with %s: keep a copy of it, and replace the replica (docs/operate/runbook.md)", len(report.Flaws), dir)
		}
		return nil
	}
	return cmd
}

func verifyTable(w io.Writer, r *verify.Report) error {
	f := render.NewFacts(w)
	f.Add("log store", r.LogStore)
	if r.Log.Entries > 0 {
		f.Add("log", fmt.Sprintf("%d to %d, terms %d to %d: %d entries, %d with commands, %d of membership",
			r.Log.FirstIndex, r.Log.LastIndex, r.Log.FirstTerm, r.Log.LastTerm, r.Log.Entries, r.Log.Commands, r.Log.Configurations))
	} else {
		f.Add("log", "no entry was read")
	}
	f.Add("term", strconv.FormatUint(r.Log.CurrentTerm, 10))
	if r.Log.VotedFor != "" {
		f.Add("vote", fmt.Sprintf("%s in term %d", r.Log.VotedFor, r.Log.VotedTerm))
	}
	if r.State.Hash != "" {
		from := "from the first entry"
		if r.State.From != "" {
			from = "from snapshot " + r.State.From
		}
		f.Add("state", fmt.Sprintf("index %d, term %d, hash %s (%d entries replayed %s)", r.State.Index, r.State.Term, r.State.Hash, r.State.Replayed, from))
	} else {
		f.Add("state", "not known: the log could not be replayed to its end")
	}
	var members []string
	for _, m := range r.Members {
		text := m.ID + "=" + m.RaftAddr
		if !m.Voter {
			text += " (learner)"
		}
		members = append(members, text)
	}
	f.Add("members", strings.Join(members, " "))
	if r.State.AtHash != "" {
		f.Add("state", fmt.Sprintf("index %d, hash %s", r.State.AtIndex, r.State.AtHash))
	}
	if err := f.Flush(); err != nil {
		return err
	}
	if len(r.Snapshots) > 0 {
		fmt.Fprintln(w)
		t := render.NewTable(w, "SNAPSHOT", "INDEX", "TERM", "SIZE", "SOUND", "HASH")
		for _, s := range r.Snapshots {
			sound := map[bool]string{true: "yes", false: "NO"}[s.Sound]
			t.Row(s.ID, strconv.FormatUint(s.Index, 10), strconv.FormatUint(s.Term, 10), render.Size(s.Bytes), sound, s.Hash)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note: "+note)
	}
	if r.Sound() {
		_, err := fmt.Fprintln(w, "nothing is wrong")
		return err
	}
	fmt.Fprintln(w)
	t := render.NewTable(w, "WRONG", "INDEX", "TERM", "WHAT")
	for _, flaw := range r.Flaws {
		t.Row(flaw.Where, dash(flaw.Index), dash(flaw.Term), flaw.Problem)
	}
	return t.Flush()
}

// dash is a number, or a dash when it says nothing.
func dash(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}
