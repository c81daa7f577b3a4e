package raft

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	coordinators "github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/raftnode/verify"
)

// reachTime limits a try to reach one coordinator.
const reachTime = 3 * time.Second

// clusterReport is the result of `mind raft verify` for a running cluster.
type clusterReport struct {
	Leader  string         `json:"leader"`
	Members []memberReport `json:"members"`
	// Problems need an operator's attention.
	Problems []string `json:"problems"`
}

type memberReport struct {
	ID       string   `json:"id"`
	GRPCAddr string   `json:"grpc_addr"`
	Voter    bool     `json:"voter"`
	Answers  bool     `json:"answers"`
	Error    string   `json:"error,omitempty"`
	Leader   string   `json:"leader,omitempty"`
	Applied  uint64   `json:"applied_index,omitempty"`
	Hash     string   `json:"hash,omitempty"`
	HashAt   uint64   `json:"hash_index,omitempty"`
	Knows    []string `json:"members,omitempty"`
}

func (r *clusterReport) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// verifyCluster asks every coordinator.
func verifyCluster(cmd *cobra.Command, o *operator) error {
	config, err := o.Config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Timeout)
	defer cancel()
	any, err := coordinators.Dial(config)
	if err != nil {
		return err
	}
	defer any.Close()
	first, err := any.Operators().ListPeers(ctx, &v1.ListPeersRequest{})
	if err != nil {
		return o.Explain(err)
	}
	report := &clusterReport{Leader: first.GetLeader(), Problems: []string{}}
	members := make([]memberReport, len(first.GetPeers()))
	var calls sync.WaitGroup
	for i, p := range first.GetPeers() {
		calls.Go(func() { members[i] = askMember(ctx, config, p) })
	}
	calls.Wait()
	report.Members = members
	report.judge(ctx, config)
	if o.output != "table" {
		err = render.Value(cmd.OutOrStdout(), o.output, report)
	} else {
		err = report.table(cmd)
	}
	switch {
	case err != nil:
		return err
	case len(report.Problems) > 0:
		return fmt.Errorf("%d problems found in the cluster (docs/operate/runbook.md)", len(report.Problems))
	}
	return nil
}

// alone dials one coordinator only.
func alone(config coordinators.Config, addr string) (*coordinators.Client, error) {
	config.Addrs = []string{addr}
	return coordinators.Dial(config)
}

// askMember asks one coordinator for its state.
func askMember(ctx context.Context, config coordinators.Config, p *v1.Peer) memberReport {
	m := memberReport{ID: p.GetId(), GRPCAddr: p.GetGrpcAddr(), Voter: p.GetVoter()}
	if m.GRPCAddr == "" {
		m.Error = "its address is not known"
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	c, err := alone(config, m.GRPCAddr)
	if err != nil {
		m.Error = err.Error()
		return m
	}
	defer c.Close()
	got, err := c.Operators().ListPeers(ctx, &v1.ListPeersRequest{Local: true})
	switch {
	case err != nil:
		m.Error = status.Convert(err).Message()
		return m
	case got.GetAnsweredBy() != m.ID:
		m.Error = got.GetAnsweredBy() + " answers at its address"
		return m
	}
	m.Answers, m.Leader, m.Applied = true, got.GetLeader(), got.GetAppliedIndex()
	for _, peer := range got.GetPeers() {
		text := peer.GetId() + "=" + peer.GetRaftAddr()
		if !peer.GetVoter() {
			text += " (learner)"
		}
		m.Knows = append(m.Knows, text)
	}
	slices.Sort(m.Knows)
	return m
}

// judge lists the problems.
func (r *clusterReport) judge(ctx context.Context, config coordinators.Config) {
	voters, there := 0, 0
	var known []string
	for _, m := range r.Members {
		if m.Voter {
			voters++
		}
		if !m.Answers {
			r.problem("%s does not answer: %s", m.ID, m.Error)
			continue
		}
		if m.Voter {
			there++
		}
		if known == nil {
			known = m.Knows
		} else if !slices.Equal(known, m.Knows) {
			r.problem("%s has a different list of members: %v, not %v (it may lag: run the command again)", m.ID, m.Knows, known)
		}
		if m.Leader != r.Leader {
			r.problem("%s takes %q for the leader, not %q", m.ID, m.Leader, r.Leader)
		}
	}
	if majority := voters/2 + 1; there < majority {
		r.problem("%d of %d voters answer, and a leader needs %d: bring voters back; if their disks are lost for good, see `mind raft recover --help`", there, voters, majority)
	} else if r.Leader == "" {
		r.problem("there is no leader, although %d of %d voters answer: see their logs", there, voters)
	}
	r.compare(ctx, config)
}

// compare compares the states of the coordinators that answer, at an index that all have applied.
func (r *clusterReport) compare(ctx context.Context, config coordinators.Config) {
	at := uint64(0)
	for _, m := range r.Members {
		if m.Answers && (at == 0 || m.Applied < at) {
			at = m.Applied
		}
	}
	hash, of := "", ""
	for i := range r.Members {
		m := &r.Members[i]
		if !m.Answers || at == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, reachTime)
		c, err := alone(config, m.GRPCAddr)
		if err == nil {
			var got *v1.GetStateHashResponse
			// If the hash at an index is no longer kept, it cannot be compared here; the replicas compare their states
			// regularly anyway.
			if got, err = c.Operators().GetStateHash(ctx, &v1.GetStateHashRequest{Index: at}); err == nil {
				m.Hash, m.HashAt = got.GetHash(), got.GetIndex()
			}
			c.Close()
		}
		cancel()
		switch {
		case m.Hash == "":
		case hash == "":
			hash, of = m.Hash, m.ID
		case m.Hash != hash:
			r.problem("the states of %s and %s differ at index %d: see \"Replicas differ\" in docs/operate/runbook.md", of, m.ID, at)
		}
	}
}

func (r *clusterReport) table(cmd *cobra.Command) error {
	t := render.NewTable(cmd.OutOrStdout(), "ID", "VOTER", "ANSWERS", "LEADER", "APPLIED", "HASH")
	for _, m := range r.Members {
		answers := "yes"
		if !m.Answers {
			answers = "NO"
		}
		voter := "yes"
		if !m.Voter {
			voter = "learner"
		}
		t.Row(m.ID, voter, answers, m.Leader, dash(m.Applied), m.Hash)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range r.Problems {
		fmt.Fprintln(cmd.OutOrStdout(), "WRONG: "+p)
	}
	if len(r.Problems) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "no problems found")
	}
	return nil
}

// reachMembers tries to reach the members in the log of a stopped coordinator, and reports what the result means.
func reachMembers(ctx context.Context, r *verify.Report) []string {
	var (
		mu    sync.Mutex
		calls sync.WaitGroup
		texts []string
	)
	voters, there := 0, 0
	for _, m := range r.Members {
		if m.Voter {
			voters++
		}
		calls.Go(func() {
			conn, err := (&net.Dialer{Timeout: reachTime}).DialContext(ctx, "tcp", m.RaftAddr)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				texts = append(texts, fmt.Sprintf("note: %s does not answer at %s: %v", m.ID, m.RaftAddr, err))
				return
			}
			_ = conn.Close()
			if m.Voter {
				there++
			}
		})
	}
	calls.Wait()
	slices.Sort(texts)
	// The stopped coordinator itself counts as one more.
	if majority := voters/2 + 1; voters > 0 && there+1 < majority {
		texts = append(texts, fmt.Sprintf("note: %d of %d voters answer; with this one that is no majority (%d): no leader can be elected until others are back. If they are lost for good, see `mind raft recover --help`",
			there, voters, majority))
	}
	return texts
}
