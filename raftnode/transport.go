package raftnode

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/raftnode/stream"
)

// pooledLinks is the number of idle connections to each peer: one each for heartbeats, replication and votes.
const pooledLinks = 3

// transport is raft's network transport with these differences.
//
// Heartbeats go through the main loop of raft. NetworkTransport would call raft's handler on the goroutine of the
// connection. There heartbeats change term and state while the main loop uses them, so that the logs of replicas can
// diverge (hashicorp/raft issue 695, open at the time of writing). SetHeartbeatHandler ignores the handler, which raft
// does not notice. The cost is that a follower does not answer heartbeats while it waits for its disk, so the timeouts
// must be longer than a slow write.
//
// It checks who answers. Raft counts an answer from the address of a replica as one of that replica, so another one at its
// address, with an empty disk, would acknowledge entries and vote in its place, and a write could be lost.
//
// It records which replicas acknowledged this one as their leader, for linearizable reads and for Peers, and how long
// they took to answer.
type transport struct {
	*raft.NetworkTransport
	links    *links
	acks     acks
	contacts contacts
	pacing   *pacing
	// patience limits how long sending in a pipeline may block.
	patience time.Duration
}

func openTransport(cfg Config, pacing *pacing, logger hclog.Logger) (*transport, error) {
	layer := cfg.Stream
	if layer == nil {
		var err error
		if layer, err = listen(cfg); err != nil {
			return nil, err
		}
	}
	l := &links{StreamLayer: layer, open: map[net.Conn]struct{}{}, dialled: map[raft.ServerAddress]time.Time{}, pacing: pacing}
	return &transport{
		links:    l,
		pacing:   pacing,
		patience: cfg.LinkTimeout,
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:  l,
			MaxPool: pooledLinks,
			Timeout: cfg.LinkTimeout,
			Logger:  logger,
		}),
	}, nil
}

func listen(cfg Config) (*stream.Stream, error) {
	c := stream.Config{
		Network: cfg.Network, BindAddr: cfg.BindAddr, AdvertiseAddr: cfg.AdvertiseAddr,
		Server: cfg.ServerTLS, Client: cfg.DialTLS, HandshakeTime: 5 * cfg.LinkTimeout,
	}
	if c.Client == nil && cfg.ClientTLS != nil {
		c.Client = func() *tls.Config { return cfg.ClientTLS }
	}
	return stream.Listen(c)
}

// SetHeartbeatHandler implements raft.Transport and ignores the handler; see transport.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries implements raft.Transport. Raft uses it for heartbeats; it sends most entries in a pipeline.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	mark, began := t.acks.sending(), time.Now()
	if err := t.NetworkTransport.AppendEntries(id, target, args, resp); err != nil {
		return err
	}
	if err := answeredBy(id, target, resp.RPCHeader); err != nil {
		return err
	}
	// resp.Success does not matter: a follower that refuses entries because they do not fit its log still follows. A
	// replica that follows a later leader answers with its own term.
	if resp.Term == args.Term {
		t.acks.acknowledged(string(id), mark, args.Term)
		t.contacts.heard(string(id), resp)
		if len(args.Entries) == 0 {
			t.answered(target, began)
		}
	}
	return nil
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	began := time.Now()
	err := t.NetworkTransport.RequestPreVote(id, target, args, resp)
	if err == nil {
		err = answeredBy(id, target, resp.RPCHeader)
	}
	if err == nil && (resp.Granted || resp.Term < args.Term) {
		t.answered(target, began)
	}
	return err
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	began := time.Now()
	err := t.NetworkTransport.RequestVote(id, target, args, resp)
	if err == nil {
		err = answeredBy(id, target, resp.RPCHeader)
	}
	if err == nil && resp.Term <= args.Term {
		t.answered(target, began)
	}
	return err
}

// probe sends a message that changes nothing, and waits for the answer. It is an empty message of a leader of term 0,
// which no leader has. A server with a term refuses it. A server without a term, which waits to become a member, only
// records a leader without a name, which is what it has already.
//
// The error may be ignored: it matters to calls that need the link.
func (t *transport) probe(id raft.ServerID, target raft.ServerAddress, term uint64) error {
	began := time.Now()
	args := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	var resp raft.AppendEntriesResponse
	if err := t.NetworkTransport.AppendEntries(id, target, args, &resp); err != nil {
		return err
	}
	if err := answeredBy(id, target, resp.RPCHeader); err != nil {
		return err
	}
	if resp.Term <= term {
		t.answered(target, began)
	}
	return nil
}

// InstallSnapshot implements raft.Transport. Its answer does not say who gives it, so that is asked before.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.probe(id, target, args.Term); err != nil {
		return err
	}
	return t.NetworkTransport.InstallSnapshot(id, target, args, resp, data)
}

// TimeoutNow implements raft.Transport, as InstallSnapshot does.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if err := t.probe(id, target, math.MaxUint64); err != nil {
		return err
	}
	return t.NetworkTransport.TimeoutNow(id, target, args, resp)
}

// answeredBy returns an error if an answer is not from the replica that was asked.
func answeredBy(id raft.ServerID, target raft.ServerAddress, header raft.RPCHeader) error {
	if answers := string(header.ID); answers != string(id) {
		return fmt.Errorf("coordinator %q answers at %s, which is the address of %s: stop it, or give it an address of its own", answers, target, id)
	}
	return nil
}

// answered records how long a peer took to answer, without the time of dialling. The callers skip answers of a term
// later than that of the message: such a peer was not slow but cut off from this replica.
func (t *transport) answered(target raft.ServerAddress, began time.Time) {
	if dialled := t.links.dialledAt(target); dialled.After(began) {
		began = dialled
	}
	t.pacing.answered(string(target), began)
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(p, t.patience, func(header raft.RPCHeader) error { return answeredBy(id, target, header) }), nil
}

// Close also closes all connections, which NetworkTransport would leave to the other ends.
func (t *transport) Close() error {
	return errors.Join(t.NetworkTransport.Close(), t.links.Close())
}

// sever closes all connections with the other replicas at once.
func (t *transport) sever() { _ = t.Close() }
