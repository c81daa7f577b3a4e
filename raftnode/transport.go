package raftnode

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/raftnode/stream"
)

// pooledLinks are idle connections kept to each peer: one each for heartbeats,
// replication and votes.
const pooledLinks = 3

// transport is raft's network transport with three differences.
//
// Heartbeats take no short cut. NetworkTransport would hand them to raft on the
// connection's own goroutine, where they change term and state while the main
// loop is in the middle of using both; replicas' logs can then diverge
// (hashicorp/raft issue 695, open at the time of writing). With the handler
// never set every message goes through the main loop. The price: a follower
// that waits for its disk does not answer heartbeats meanwhile, so the timeouts
// must be longer than a slow write. NewRaft discards the handler's absence.
//
// And it notes who acknowledged this replica as leader, for linearizable reads
// and to tell which of the others are there, and how long they take to answer.
type transport struct {
	*raft.NetworkTransport
	links    *links
	acks     acks
	contacts contacts
	pacing   *pacing
	// patience bounds how long a pipeline may take nothing.
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

// SetHeartbeatHandler does nothing; see transport.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries carries the heartbeats; entries mostly travel in the pipeline.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	mark, began := t.acks.sending(), time.Now()
	if err := t.NetworkTransport.AppendEntries(id, target, args, resp); err != nil {
		return err
	}
	// Success is not asked for: a follower that refuses entries which do not
	// fit its log still follows. One that has moved on answers its own term.
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
	if err == nil && (resp.Granted || resp.Term < args.Term) {
		t.answered(target, began)
	}
	return err
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	began := time.Now()
	err := t.NetworkTransport.RequestVote(id, target, args, resp)
	if err == nil && resp.Term <= args.Term {
		t.answered(target, began)
	}
	return err
}

// probe asks for an answer that changes nothing. The message is an empty one of a
// leader of term 0, which there never is: who has a term refuses it, and who has
// none, a server that waits to be joined, learns of a leader without a name, which
// is what it knew.
func (t *transport) probe(id raft.ServerID, target raft.ServerAddress, term uint64) {
	began := time.Now()
	args := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}
	var resp raft.AppendEntriesResponse
	// A failure is for those to tell who need the link.
	if err := t.NetworkTransport.AppendEntries(id, target, args, &resp); err == nil && resp.Term <= term {
		t.answered(target, began)
	}
}

// answered tells how long a peer took to answer, without dialling. An answer of a
// later term than was asked in is not told: the others have gone on, and were not
// slow, but cut off from this replica.
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
	return newPipeline(p, t.patience), nil
}

// Close ends every connection too, which NetworkTransport would leave to
// the other end.
func (t *transport) Close() error {
	return errors.Join(t.NetworkTransport.Close(), t.links.Close())
}

// sever ends all communication with the other replicas at once.
func (t *transport) sever() { _ = t.Close() }
