// Package gossip tracks which members are alive, as seen by this process.
//
// Contract: every coordinator and agent of a cluster is a member of one memberlist pool, encrypted with a shared key.
// Members returns this process's own view. The views of different processes differ for seconds, and on the two sides of a
// network partition for as long as it lasts.
//
// Guarantees: a member that dies without leaving is dead in the view of the others after about 3 to 5 seconds in a pool of
// up to ten, longer in larger pools; a member that answers any of the pool's direct, indirect or TCP pings is not declared
// dead. A member that leaves is in state left, not dead, if its leave message arrived. A process that starts again under
// its name is alive with a higher incarnation. The views converge again after a partition.
//
// Not guaranteed: that a dead member is dead. It means that this process and those it can reach do not reach the
// member. Suspect is this process's own suspicion. Suspicions of other processes are not visible before the member is
// declared dead.
package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// State is the state of a member in this process's view.
type State string

// The states of a member. Suspect: it missed pings, and has a few seconds to answer. Dead: it did not answer. Left: it left
// the pool.
const (
	Alive   State = "alive"
	Suspect State = "suspect"
	Dead    State = "dead"
	Left    State = "left"
)

// Member is one participant as this process sees it.
type Member struct {
	Name string
	Role string
	// Addr is where it listens, host:port.
	Addr  string
	State State
	// Incarnation is higher for each start of the process under this name.
	Incarnation uint64
	Meta        map[string]string
	// Since is when this process saw the member enter its state.
	Since time.Time
	// Acked is when the member last answered a direct ping of this process; zero if never.
	Acked time.Time
}

// Config configures a member.
type Config struct {
	// Name is the id of the component, unique among all members.
	Name string
	// Role is coordinator or agent.
	Role string
	// Bind is the host:port to listen on, with UDP and TCP; port 0 picks a free port. Advertise is the address at which
	// others reach the member; empty: the bound address.
	Bind      string
	Advertise string
	// SecretKey encrypts all messages: 16, 24 or 32 bytes. Without it they are not encrypted.
	SecretKey []byte
	// Join lists addresses of any members. They are tried until one answers, and again whenever members are dead.
	Join []string
	// Meta is sent to all members. Encoded with the role and its own keys it must fit in 512 bytes.
	Meta   map[string]string
	Logger *slog.Logger
	// Transport replaces UDP and TCP in tests; nil: UDP and TCP.
	Transport Transport
}

// Transport carries gossip between members.
type Transport = memberlist.Transport

func (c Config) logger() *slog.Logger {
	return cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

// Each probeInterval one member is probed. An unanswered probe becomes a suspicion, which becomes a death after
// suspicionMult probe intervals if others confirm it, and otherwise after suspicionMaxMult times that. So a suspected
// member has at least 2.5 s in which one answer clears it, which is enough even on a machine with two busy cores.
const (
	probeInterval    = 500 * time.Millisecond
	probeTimeout     = 250 * time.Millisecond
	suspicionMult    = 5
	suspicionMaxMult = 2
	streamTimeout    = 2 * time.Second
	// reclaimTime is how long the name of a dead member is reserved before a process at another address may take it.
	reclaimTime = 2 * time.Second
	// rejoinInterval is the pause between attempts to join.
	rejoinInterval = time.Second
	rejoinSlowly   = 5 * time.Second
	// rejoinAtMost limits the addresses tried in one attempt.
	rejoinAtMost = 5
	// leaveTime limits each of the two phases of leaving, in which the message spreads. It is shorter than the time
	// that callers wait for Leave, so that the pool has stopped when they continue.
	leaveTime = 750 * time.Millisecond
)

// Pool is this process's membership.
type Pool struct {
	cfg  Config
	log  *slog.Logger
	list *memberlist.Memberlist
	view *view

	joining sync.WaitGroup
	stop    context.CancelFunc
	once    sync.Once
	left    chan struct{}
	err     error
}

// Start listens, and joins in the background for as long as it takes.
func Start(cfg Config) (*Pool, error) {
	cfg.Logger = cfg.logger()
	if cfg.Name == "" || cfg.Role == "" {
		return nil, errors.New("gossip configuration: name and role are required")
	}
	p := &Pool{cfg: cfg, log: cfg.Logger.With("component", "gossip", "member", cfg.Name), left: make(chan struct{})}
	p.view = newView(p.log, cfg.Name, about{Role: cfg.Role, Incarnation: uint64(time.Now().UnixNano()), Meta: cfg.Meta})
	if err := p.view.me.check(); err != nil {
		return nil, err
	}
	conf, err := p.memberlistConfig()
	if err != nil {
		return nil, fmt.Errorf("gossip configuration: %w", err)
	}
	if p.list, err = memberlist.Create(conf); err != nil {
		return nil, fmt.Errorf("start gossip: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.joining.Go(func() { p.keepJoining(ctx) })
	return p, nil
}

func (p *Pool) memberlistConfig() (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	c.Name = p.cfg.Name
	host, port, err := splitAddr(p.cfg.Bind)
	if err != nil {
		return nil, fmt.Errorf("bind address: %w", err)
	}
	c.BindAddr, c.BindPort = host, port
	c.AdvertisePort = port
	if p.cfg.Advertise != "" {
		if c.AdvertiseAddr, c.AdvertisePort, err = splitAddr(p.cfg.Advertise); err != nil {
			return nil, fmt.Errorf("advertised address: %w", err)
		}
	}
	c.SecretKey = p.cfg.SecretKey
	if p.cfg.Transport != nil {
		c.Transport = p.cfg.Transport
		c.EnableCompression = false // costs time and saves nothing on a network in memory
	}
	c.ProbeInterval, c.ProbeTimeout = probeInterval, probeTimeout
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = suspicionMult, suspicionMaxMult
	c.TCPTimeout = streamTimeout
	c.DeadNodeReclaimTime = reclaimTime
	c.Delegate, c.Events, c.Ping = p.view, p.view, p.view
	c.Logger = log.New(&logLines{log: p.log, suspected: p.view.suspected}, "", 0)
	return c, nil
}

// splitAddr splits host:port and resolves the host: members know each other by IP address.
func splitAddr(addr string) (string, int, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port of %s: %w", addr, err)
	}
	if host != "" && net.ParseIP(host) == nil {
		ip, err := net.ResolveIPAddr("ip", host)
		if err != nil {
			return "", 0, err
		}
		host = ip.String()
	}
	return cmp.Or(host, "0.0.0.0"), int(port), nil
}

// keepJoining makes the first contact, and later contacts dead members again: after a partition memberlist itself would
// forget the other side.
func (p *Pool) keepJoining(ctx context.Context) {
	pace := rejoinInterval
	for {
		if targets := p.view.away(p.cfg.Join, p.Addr()); len(targets) > 0 {
			targets = targets[:min(len(targets), rejoinAtMost)]
			n, err := p.list.Join(targets)
			if err != nil {
				p.log.Debug("join", "targets", targets, "reached", n, "error", err)
			}
		}
		if p.list.NumMembers() > 1 {
			pace = rejoinSlowly
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
			return
		}
	}
}

// Members returns all members that this process has seen, by name, including itself.
func (p *Pool) Members() []Member {
	members := p.view.members(time.Now())
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// Changes returns a channel that is signaled after the view changed; unread signals are merged. Each call returns its own
// channel, which lives as long as the pool.
func (p *Pool) Changes() <-chan struct{} { return p.view.subscribe() }

// Addr returns the advertised address.
func (p *Pool) Addr() string { return p.list.LocalNode().Address() }

// Incarnation returns the incarnation of this member, which is higher for each start of the process.
func (p *Pool) Incarnation() uint64 { return p.view.incarnation() }

// SetMeta replaces this member's meta and tells the others.
func (p *Pool) SetMeta(meta map[string]string) error {
	if err := p.view.setMeta(meta); err != nil {
		return err
	}
	if err := p.list.UpdateNode(leaveTime); err != nil {
		return fmt.Errorf("broadcast new meta: %w", err)
	}
	return nil
}

// Leave leaves the pool and stops. It returns when everything has stopped, or with ctx's error before that. Further calls
// wait for the first one.
func (p *Pool) Leave(ctx context.Context) error {
	p.once.Do(func() {
		go func() {
			defer close(p.left)
			p.stop()
			p.joining.Wait()
			// Memberlist distinguishes leaving from a death only at the leaving member; the others learn it from the meta
			// sent before.
			p.view.leave()
			if p.list.NumMembers() > 1 {
				if err := errors.Join(p.list.UpdateNode(leaveTime), p.list.Leave(leaveTime)); err != nil {
					p.log.Debug("gossip leave failed: no answer in time", "error", err)
				}
			}
			p.err = p.list.Shutdown()
		}()
	})
	select {
	case <-p.left:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("leave gossip: %w", ctx.Err())
	}
}
