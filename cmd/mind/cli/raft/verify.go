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
		Short: "Check the coordinators of a cluster, or the data of a stopped one",
		Long: `Without --data-dir it asks every coordinator, and checks that all answer, agree on the leader and the members, that the voters
that answer form a majority, and that their states are equal.

With --data-dir it checks the log and the snapshots of a stopped coordinator without changing them. It reads every entry and
every snapshot, looks for gaps, decreasing terms, damaged pages and wrong checksums, replays the log, compares it with the
snapshots, and checks the invariants of the state. It refuses while the coordinator runs. It also tries to reach the other
members in the log (unless --reach=false), and reports when the voters that answer cannot form a majority.

The hash is the one that replicas compare: use --at INDEX to compare the data of two replicas. The end of a log may not be
committed yet, so choose an index that both replicas have applied.

The exit code is 1 if anything is wrong.`,
		Example: `  mind raft verify
  mind raft verify --data-dir /var/lib/mind/c2
  mind raft verify --data-dir /var/lib/mind/c2 --at 48213 -o json`,
		Args: cobra.NoArgs,
	}
	o := &operator{}
	o.bind(cmd)
	f := cmd.Flags()
	f.BoolVar(&reach, "reach", true, "with --data-dir: try to reach the other members")
	f.StringVar(&dir, "data-dir", "", "data directory of a stopped coordinator")
	f.StringVar(&store, "log-store", "", "wal or boltdb (default: the one in use)")
	f.Uint64Var(&at, "at", 0, "also show the hash at this index")
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
			return fmt.Errorf("%d problems found in %s: keep a copy of it, and replace the replica (docs/operate/runbook.md)", len(report.Flaws), dir)
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
		f.Add("state", "unknown: the log could not be replayed to its end")
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
		_, err := fmt.Fprintln(w, "no problems found")
		return err
	}
	fmt.Fprintln(w)
	t := render.NewTable(w, "WRONG", "INDEX", "TERM", "WHAT")
	for _, flaw := range r.Flaws {
		t.Row(flaw.Where, dash(flaw.Index), dash(flaw.Term), flaw.Problem)
	}
	return t.Flush()
}

// dash formats a number, or a dash for 0.
func dash(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}
