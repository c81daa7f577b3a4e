// Package gossip says who is alive, as this process sees it.
//
// Contract: every coordinator and agent of a cluster is a member of one
// memberlist pool, encrypted with a shared key. Members tells this process's
// own view; views of different processes differ for seconds, and on the two
// sides of a network cut for as long as it lasts.
//
// Guarantees: a member that dies without a word is dead in the view of the
// others after about 3 to 5 seconds in a pool of up to ten, longer in larger
// pools; one that answers any of the pool's direct, indirect or TCP pings is not
// declared dead. A member that said goodbye is left, and not dead, provided its
// goodbye arrived. A process that starts again under its name is alive with a
// higher incarnation. The view heals by itself after a cut.
//
// Not guaranteed: that dead means dead. It means that this process and those it
// can talk to do not reach the member. Suspect is this process's own suspicion;
// those of others are not seen until they become a death.
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

// State is what this process believes of a member.
type State string

// The states of a member. Suspect: it missed pings, and has a few seconds to
// answer. Dead: it did not. Left: it said goodbye.
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
	// Acked is when the member last answered a direct ping of this process;
	// zero when it never did.
	Acked time.Time
}

// Config says how to take part.
type Config struct {
	// Name is the id of the component, unique among all members.
	Name string
	// Role is coordinator or agent.
	Role string
	// Bind is host:port to listen on (UDP and TCP; port 0 picks one);
	// Advertise is where others reach it (default: what was bound).
	Bind      string
	Advertise string
	// SecretKey encrypts everything: 16, 24 or 32 bytes. Without one nothing
	// is encrypted.
	SecretKey []byte
	// Join are addresses of any members; they are tried until one answers, and
	// again whenever members are away.
	Join []string
	// Meta travels with the member; with name of role and keys it must fit in
	// 512 bytes.
	Meta   map[string]string
	Logger *slog.Logger
	// Transport replaces UDP and TCP, in tests; nil: the real ones.
	Transport Transport
}

// Transport carries gossip between members.
type Transport = memberlist.Transport

func (c Config) logger() *slog.Logger {
	return cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

// Timings. A probe goes to one member every probeInterval; unanswered it becomes
// a suspicion, which becomes a death after suspicionMult probe intervals when
// others confirm it, and after suspicionMaxMult times that when nobody does.
// So a busy member has at least 2.5 s to find a moment for one packet, which
// even a machine with two busy cores gives.
const (
	probeInterval    = 500 * time.Millisecond
	probeTimeout     = 250 * time.Millisecond
	suspicionMult    = 5
	suspicionMaxMult = 2
	streamTimeout    = 2 * time.Second
	// reclaimTime is how long a name is kept for its dead member before a
	// process at another address may take it.
	reclaimTime = 2 * time.Second
	// rejoinInterval is the pace of attempts to join, first and later on.
	rejoinInterval = time.Second
	rejoinSlowly   = 5 * time.Second
	// rejoinAtMost bounds the addresses tried in one attempt.
	rejoinAtMost = 5
	// goodbyeTime bounds how long leaving waits, twice, for the word to spread: less than callers wait for the leaving, so that
	// nothing of a pool is left when they go on.
	goodbyeTime = 750 * time.Millisecond
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
		return nil, errors.New("gossip configuration: name and role are needed")
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
		c.EnableCompression = false // virtual time has better things to do
	}
	c.ProbeInterval, c.ProbeTimeout = probeInterval, probeTimeout
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = suspicionMult, suspicionMaxMult
	c.TCPTimeout = streamTimeout
	c.DeadNodeReclaimTime = reclaimTime
	c.Delegate, c.Events, c.Ping = p.view, p.view, p.view
	c.Logger = log.New(&logLines{log: p.log, suspected: p.view.suspected}, "", 0)
	return c, nil
}

// splitAddr takes host:port apart and resolves the host: members know each
// other by IP address.
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

// keepJoining makes the first contact, and later calls again on whoever is
// away: after a cut memberlist by itself would forget the other side.
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

// Members returns everybody this process has seen, by name, itself included.
func (p *Pool) Members() []Member {
	members := p.view.members(time.Now())
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// Changes returns a channel that is signalled after the view changed; signals
// that were not received yet become one. Each call returns its own channel,
// which lives as long as the pool.
func (p *Pool) Changes() <-chan struct{} { return p.view.subscribe() }

// Addr is the advertised address.
func (p *Pool) Addr() string { return p.list.LocalNode().Address() }

// Incarnation is this member's own: higher for each start of the process.
func (p *Pool) Incarnation() uint64 { return p.view.incarnation() }

// SetMeta replaces this member's meta and tells the others.
func (p *Pool) SetMeta(meta map[string]string) error {
	if err := p.view.setMeta(meta); err != nil {
		return err
	}
	if err := p.list.UpdateNode(goodbyeTime); err != nil {
		return fmt.Errorf("spread new meta: %w", err)
	}
	return nil
}

// Leave says goodbye and stops. It returns when everything has stopped, or with
// ctx's error before that. Calling it again waits for the first call.
func (p *Pool) Leave(ctx context.Context) error {
	p.once.Do(func() {
		go func() {
			defer close(p.left)
			p.stop()
			p.joining.Wait()
			// Memberlist tells a goodbye from a death only at the one who
			// leaves; the others learn it from the meta that comes before.
			p.view.goodbye()
			if p.list.NumMembers() > 1 {
				if err := errors.Join(p.list.UpdateNode(goodbyeTime), p.list.Leave(goodbyeTime)); err != nil {
					p.log.Debug("goodbye did not spread in time", "error", err)
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
