package cluster

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

type replicas struct {
	All []struct {
		ID        string `json:"id"`
		Leader    bool   `json:"leader"`
		Voter     bool   `json:"voter"`
		Liveness  string `json:"liveness"`
		Reachable bool   `json:"reachable"`
		Term      uint64 `json:"term"`
		Applied   uint64 `json:"applied_index"`
		Lag       uint64 `json:"lag"`
		Hash      string `json:"state_hash"`
		Program   string `json:"program"`
		State     string `json:"state"`
	} `json:"coordinators"`
	Leader    string `json:"leader"`
	Quorum    int    `json:"quorum"`
	Reachable int    `json:"voters_reachable"`
	HashIndex uint64 `json:"hash_index"`
	Hashes    string `json:"hashes"`
	Level     int    `json:"feature_level"`
}

func newCoordinators() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "coordinators",
		Short: "List the coordinators, and whether they agree",
		Long: `Lists the coordinators: which one leads, which answer, how far each has got, and the hash of its state. The hashes are those at one index,
the newest that all that answer have applied: where they differ, a replica is wrong (see the runbook).

It needs no leader. ` + "`mind raft peers`" + ` shows addresses and Raft's own view to operators.`,
		Example: `  mind coordinators
  mind coordinators -o json`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var r replicas
		data, err := c.Get(ctx, "/cluster/coordinators", nil, &r)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "COORDINATOR", "ROLE", "ANSWERS", "GOSSIP", "TERM", "APPLIED", "LAG", "HASH", "VERSION")
		for _, m := range r.All {
			role := "follower"
			switch {
			case m.Leader:
				role = "leader"
			case !m.Voter:
				role = "learner"
			}
			if !m.Reachable || m.State == "EMPTY" || m.State == "RESTORING" {
				answers := "no"
				if m.Reachable {
					answers = "without data"
				}
				t.Row(m.ID, role, answers, m.Liveness, "-", "-", "-", "-", or(m.Program, "-"))
				continue
			}
			t.Row(m.ID, role, "yes", m.Liveness, strconv.FormatUint(m.Term, 10), strconv.FormatUint(m.Applied, 10), strconv.FormatUint(m.Lag, 10), m.Hash, m.Program)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), r.summary())
		return err
	})
}

const (
	hashesAgree  = "AGREE"
	hashesDiffer = "DIFFER"
)

// summary says in one line whether the coordinators are well.
func (r *replicas) summary() string {
	switch spare := r.Reachable - r.Quorum; {
	case r.Leader == "" || spare < 0:
		return fmt.Sprintf("no quorum or no leader: %d voters answer, and it takes %d; writes wait", r.Reachable, r.Quorum)
	case r.Hashes == hashesDiffer:
		return fmt.Sprintf("the hashes at index %d differ: see `mind raft verify`", r.HashIndex)
	case spare == 0:
		return fmt.Sprintf("%s leads; one more loss stops writes: %d voters answer, and it takes %d", r.Leader, r.Reachable, r.Quorum)
	default:
		fail := fmt.Sprintf("%d coordinators may fail", spare)
		if spare == 1 {
			fail = "one coordinator may fail"
		}
		hashes := fmt.Sprintf("all hashes at index %d agree", r.HashIndex)
		if r.Hashes != hashesAgree {
			hashes = "the hashes cannot be compared now"
		}
		return fmt.Sprintf("%s leads, %s, %s; feature level %d", r.Leader, hashes, fail, r.Level)
	}
}

type failover struct {
	Term       uint64    `json:"term"`
	Leader     string    `json:"leader"`
	Previous   string    `json:"previous_leader"`
	At         time.Time `json:"at"`
	StoodStill *float64  `json:"stood_still_seconds"`
	// Running and Harmed are nil for callers without cluster_admin.
	Running *int `json:"jobs_running"`
	Harmed  *int `json:"jobs_harmed"`
}

func newFailovers() *cobra.Command {
	return rest.Command(&cobra.Command{
		Use:   "failovers",
		Short: "List the newest changes of the leader, and what each cost",
		Long: `Lists the newest changes of the leader, at most 64: for how long no write was taken, how many jobs ran then, and how many of those lost a
task within two minutes, for whatever reason. Of a good failover that is none. These counts take scaimind:cluster_admin.`,
		Example: `  mind failovers
  mind failovers -o json`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *rest.Client, output string, _ []string) error {
		var list struct {
			Failovers []failover `json:"failovers"`
		}
		data, err := c.Get(ctx, "/cluster/failovers", nil, &list)
		if err != nil {
			return err
		}
		if output != "table" {
			return render.Data(cmd.OutOrStdout(), output, data)
		}
		t := render.NewTable(cmd.OutOrStdout(), "AT", "TERM", "LEADER", "BEFORE", "WRITES STOOD STILL", "JOBS RUNNING", "HARMED")
		for _, f := range list.Failovers {
			before, stood := or(f.Previous, "-"), "-"
			if f.StoodStill != nil {
				stood = fmt.Sprintf("%.2f s", *f.StoodStill)
			}
			t.Row(render.Time(f.At), strconv.FormatUint(f.Term, 10), f.Leader, before, stood, numberOf(f.Running), numberOf(f.Harmed))
		}
		return t.Flush()
	})
}

func or(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

func numberOf(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}
