package leader

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/session"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// pingTimeout is shorter than lease.Timing.Window: a later answer would expire soon.
	pingTimeout = 1500 * time.Millisecond
	// pingsAtOnce and relaysAtOnce limit the calls in flight.
	pingsAtOnce  = 64
	relaysAtOnce = 3
	// relayTries limits how many peers are asked to relay one renewal.
	relayTries = 48
	// reconnectMax limits the pause before a peer is dialed again.
	reconnectMax = time.Second
)

// Peers calls other agents while the leader does not answer this one: it sends renewals through them, and asks them whether
// they are cut off, too. Otherwise it has no connections.
type Peers struct {
	cfg PeersConfig

	mu    sync.Mutex
	conns map[string]*peerConn
	// helpful is the peer that relayed the last renewal.
	helpful string
}

type peerConn struct {
	*grpc.ClientConn
	addr string
}

// PeersConfig configures Peers.
type PeersConfig struct {
	// Node and BootID go into renewals.
	Node, BootID string
	Network      Network
	// Credentials returns the credentials for calls to a node.
	Credentials func(node string) credentials.TransportCredentials
	Leases      *Leases
	Rosters     *Rosters
	Clock       func() int64
	Log         *slog.Logger
}

// NewPeers returns peers without a connection.
func NewPeers(cfg PeersConfig) *Peers { return &Peers{cfg: cfg, conns: make(map[string]*peerConn)} }

// Run relays and pings when the leases need it, until the context ends.
func (p *Peers) Run(ctx context.Context) {
	var rounds sync.WaitGroup
	defer p.closeAll()
	defer rounds.Wait()
	heartbeat := p.cfg.Leases.Timing().Heartbeat
	// Pings are sent more often than renewals: when the sessions of the peers close, little is left of the shortest
	// lease.
	relaying, pinging := newRounds(heartbeat), newRounds(heartbeat/2)
	tick := time.NewTicker(heartbeat / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var relay, ping bool
		p.cfg.Leases.with(func(b *lease.Book, now int64) { relay, ping = b.NeedRelay(now), b.NeedPing(now) })
		if relay {
			relaying.begin(&rounds, func() { p.relay(ctx) })
		}
		if ping {
			pinging.begin(&rounds, func() { p.ping(ctx) })
		}
		if !relay && !ping && len(relaying.busy)+len(pinging.busy) == 0 {
			p.closeAll()
		}
	}
}

// rounds starts rounds of calls, one at a time, and not more often than their pace.
type rounds struct {
	busy chan struct{}
	pace time.Duration
	last time.Time
}

func newRounds(pace time.Duration) *rounds { return &rounds{busy: make(chan struct{}, 1), pace: pace} }

func (r *rounds) begin(running *sync.WaitGroup, round func()) {
	if now := time.Now(); len(r.busy) == 0 && now.Sub(r.last) >= r.pace {
		r.last = now
		r.busy <- struct{}{}
		running.Go(func() {
			defer func() { <-r.busy }()
			round()
		})
	}
}

// relay asks peers to relay one renewal.
func (p *Peers) relay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	seq, roster := p.cfg.Leases.Renewal()
	renewal := &v1.Renewal{NodeId: p.cfg.Node, BootId: p.cfg.BootID, Seq: seq, RosterVersion: roster}
	targets := make(chan *v1.RosterMember)
	var workers sync.WaitGroup
	for range relaysAtOnce {
		workers.Go(func() {
			for m := range targets {
				if p.relayThrough(ctx, m, renewal) {
					p.cfg.Leases.Acked(seq)
					p.found(m.GetNodeId())
					cancel()
				}
			}
		})
	}
	for _, m := range p.candidates() {
		select {
		case targets <- m:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(targets)
	workers.Wait()
}

func (p *Peers) relayThrough(ctx context.Context, m *v1.RosterMember, renewal *v1.Renewal) bool {
	conn, err := p.conn(m)
	if err != nil {
		return false
	}
	answer, err := v1.NewPeerServiceClient(conn).Relay(ctx, &v1.RelayRequest{Renewal: renewal})
	p.judge(m, err)
	return err == nil && answer.GetSeq() == renewal.GetSeq()
}

// candidates returns the peers to relay through: the one that relayed last, then others in random order.
func (p *Peers) candidates() []*v1.RosterMember {
	list := slices.Clone(p.cfg.Rosters.others())
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	p.mu.Lock()
	helpful := p.helpful
	p.mu.Unlock()
	if i := slices.IndexFunc(list, func(m *v1.RosterMember) bool { return m.GetNodeId() == helpful }); i > 0 {
		list[0], list[i] = list[i], list[0]
	}
	return list[:min(len(list), relayTries)]
}

func (p *Peers) found(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.helpful != node {
		p.cfg.Log.Info("leases are renewed through another node", "through", node)
	}
	p.helpful = node
}

// ping asks every peer whether its session is closed.
func (p *Peers) ping(ctx context.Context) {
	var calls sync.WaitGroup
	slots := make(chan struct{}, pingsAtOnce)
	for _, m := range p.cfg.Rosters.others() {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			p.pingOne(ctx, m)
		})
	}
	calls.Wait()
	p.cfg.Leases.hurry()
}

func (p *Peers) pingOne(ctx context.Context, m *v1.RosterMember) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conn, err := p.conn(m)
	if err != nil {
		return
	}
	// The answer counts from this time on, because the time at which the peer gives it is unknown.
	sentAt := p.cfg.Clock()
	answer, err := v1.NewPeerServiceClient(conn).Ping(ctx, &v1.PingRequest{NodeId: p.cfg.Node})
	p.judge(m, err)
	if err == nil && answer.GetSessionClosed() && answer.GetNodeId() == m.GetNodeId() {
		p.cfg.Leases.with(func(b *lease.Book, _ int64) { b.PeerClosed(m.GetNodeId(), sentAt) })
	}
}

// judge drops a connection after a call without an answer: TCP backs off after lost packets and stays silent for about
// as long again, and a new connection does not.
func (p *Peers) judge(m *v1.RosterMember, err error) {
	if err == nil || status.Code(err) != codes.DeadlineExceeded {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.conns[m.GetNodeId()]; ok {
		_ = c.Close()
		delete(p.conns, m.GetNodeId())
	}
}

// conn returns the connection to a peer.
func (p *Peers) conn(m *v1.RosterMember) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.conns[m.GetNodeId()]; ok {
		if c.addr == m.GetGrpcAddr() {
			return c.ClientConn, nil
		}
		_ = c.Close()
		delete(p.conns, m.GetNodeId())
	}
	pause := backoff.DefaultConfig
	pause.BaseDelay, pause.MaxDelay = reconnectMax/4, reconnectMax
	conn, err := grpc.NewClient("passthrough:///"+m.GetGrpcAddr(),
		grpc.WithTransportCredentials(p.cfg.Credentials(m.GetNodeId())),
		grpc.WithContextDialer(p.cfg.Network.Dial),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: 2 * session.DialTimeout}))
	if err != nil {
		return nil, fmt.Errorf("dial node %s: %w", m.GetNodeId(), err)
	}
	p.conns[m.GetNodeId()] = &peerConn{ClientConn: conn, addr: m.GetGrpcAddr()}
	return conn, nil
}

// Connections returns the number of connections to other nodes. It is 0 during a session.
func (p *Peers) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *Peers) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, c := range p.conns {
		_ = c.Close()
		delete(p.conns, node)
	}
	p.helpful = ""
}
