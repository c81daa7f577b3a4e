package raft

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	coordinators "github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
)

// peerRow is a coordinator in the output of `mind raft peers -o json`.
type peerRow struct {
	ID       string `json:"id"`
	Leader   bool   `json:"leader"`
	Voter    bool   `json:"voter"`
	Health   string `json:"health"`
	Reason   string `json:"reason,omitempty"`
	WaitsFor string `json:"waits_for,omitempty"`
	// LastContactMS and Lag are known to the leader only; null if the leader was not asked.
	LastContactMS *int64  `json:"last_contact_ms"`
	Lag           *uint64 `json:"lag"`
	Liveness      string  `json:"liveness"`
	RaftAddr      string  `json:"raft_addr"`
	GRPCAddr      string  `json:"grpc_addr"`
	HTTPAddr      string  `json:"http_addr"`
}

func newRaftPeers() *cobra.Command {
	o := &operator{}
	return o.with(&cobra.Command{
		Use:   "peers",
		Short: "List the coordinators, with leader, health and lag",
		Long: `Lists the coordinators as the leader sees them: whether each answers, when it last did, and by how many log entries it lags.
GOSSIP is the member's state in gossip, which lags by some seconds. Without a leader, one coordinator reports what it knows
and tries to reach the others.`,
		Example: `  mind raft peers
  mind raft peers --coordinators c1:9000,c2:9000 --cert operator.pem --key operator-key.pem --ca ca.pem`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, cmd *cobra.Command, c *coordinators.Client, _ []string) error {
		got, err := c.Operators().ListPeers(ctx, &v1.ListPeersRequest{})
		if err != nil {
			return err
		}
		if o.output != "table" {
			peers := []peerRow{}
			for _, p := range got.GetPeers() {
				peers = append(peers, peerRow{
					p.GetId(), p.GetLeader(), p.GetVoter(), p.GetHealth(), p.GetReason(), p.GetWaitsFor(), p.LastContactMs, p.Lag,
					p.GetLiveness(), p.GetRaftAddr(), p.GetGrpcAddr(), p.GetHttpAddr(),
				})
			}
			return render.Value(cmd.OutOrStdout(), o.output, struct {
				Peers      []peerRow `json:"peers"`
				Term       uint64    `json:"term"`
				Applied    uint64    `json:"applied_index"`
				Committed  uint64    `json:"commit_index"`
				AnsweredBy string    `json:"answered_by"`
				Leader     string    `json:"leader"`
			}{peers, got.GetTerm(), got.GetAppliedIndex(), got.GetCommitIndex(), got.GetAnsweredBy(), got.GetLeader()})
		}
		t := render.NewTable(cmd.OutOrStdout(), "ID", "ROLE", "HEALTH", "CONTACT", "LAG", "GOSSIP", "RAFT", "GRPC", "HTTP")
		for _, p := range got.GetPeers() {
			t.Row(p.GetId(), peerRole(p), cmp.Or(p.GetHealth(), "-"), contact(p), lag(p), p.GetLiveness(), p.GetRaftAddr(), p.GetGrpcAddr(), p.GetHttpAddr())
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, p := range got.GetPeers() {
			if p.GetReason() != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s does not answer: %s\n", p.GetId(), p.GetReason())
			}
			if p.GetWaitsFor() != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s has no vote yet: %s\n", p.GetId(), p.GetWaitsFor())
			}
		}
		says := "as " + got.GetAnsweredBy() + " says"
		if got.GetLeader() == "" {
			says += "; it knows of no leader (mind raft verify says why)"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "term %d, applied %d, committed %d, %s\n", got.GetTerm(), got.GetAppliedIndex(), got.GetCommitIndex(), says)
		return nil
	})
}

func peerRole(p *v1.Peer) string {
	switch {
	case p.GetLeader():
		return "leader"
	case !p.GetVoter():
		return "learner"
	}
	return "follower"
}

// contact formats how long ago a coordinator last answered the leader.
func contact(p *v1.Peer) string {
	switch {
	case p.LastContactMs == nil:
		return "-"
	case p.GetLastContactMs() < 0:
		return "never"
	case p.GetLeader():
		return "itself"
	}
	return (time.Duration(p.GetLastContactMs()) * time.Millisecond).Round(10 * time.Millisecond).String()
}

func lag(p *v1.Peer) string {
	if p.Lag == nil {
		return "-"
	}
	return strconv.FormatUint(p.GetLag(), 10)
}
