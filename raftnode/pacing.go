package raftnode

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/mindcoordinator/mind/raftnode/pace"
)

// pacing passes the observations of this replica to pace, and the decisions of pace to raft.
//
// Raft uses the heartbeat timeout for two things: a follower waits for its leader this long, and a leader sends
// heartbeats at a tenth of it. So a replica that leads uses the base, even if it would wait longer as a follower: its
// followers may have just started and use the base, too. Only its lease is longer.
//
// A leader that stepped down because it had too few answers also uses the base until there is a leader. The others
// still take it for their leader and would vote for no other replica, so it should stand for election first.
type pacing struct {
	cfg Config
	log *slog.Logger
	// raft and leader are set by begin. Before begin only answered and timeout are called.
	raft   *raft.Raft
	leader pace.LeaderTimes

	mu       sync.Mutex
	pace     *pace.Pace
	trips    pace.RoundTrips
	leads    bool
	resigned bool
	term     uint64 // the term in which it leads, or resigned
	looked   time.Time
	told     raft.ReloadableConfig

	// now is the last timeout of pace, in nanoseconds.
	now atomic.Int64

	// sent is the time at which the last entry was proposed here, in Unix nanoseconds. quiet says that this is longer
	// ago than quietAfter, so that the empty messages are sent less often.
	sent  atomic.Int64
	quiet atomic.Bool
}

// A leader without a proposal for quietAfter sends its empty messages quietPace times less often: its followers know
// what is committed, and heartbeats show that it still leads.
const (
	quietAfter = time.Second
	quietPace  = 20
)

// sending must be called before an entry is proposed.
func (p *pacing) sending() {
	p.sent.Store(time.Now().UnixNano())
	if p.quiet.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hush()
	}
}

// hush sets the interval of the empty messages. The caller holds the lock. It sets quiet before it reads sent: so it
// notices an entry that is proposed concurrently, or sending notices that quiet is set.
func (p *pacing) hush() {
	was := p.quiet.Swap(true)
	quiet := p.leads && time.Since(time.Unix(0, p.sent.Load())) >= quietAfter
	p.quiet.Store(quiet)
	switch {
	case quiet && !was:
		p.leader.SetCommit(quietPace * p.cfg.CommitTimeout)
	case !quiet && was:
		p.leader.SetCommit(p.cfg.CommitTimeout)
	}
}

func newPacing(cfg Config, log *slog.Logger) *pacing {
	p := &pacing{cfg: cfg, log: log, pace: pace.New(cfg.HeartbeatTimeout, cfg.MaxTimeout)}
	p.now.Store(int64(cfg.HeartbeatTimeout))
	return p
}

// begin sets the raft whose times are changed.
func (p *pacing) begin(r *raft.Raft) {
	p.raft, p.leader, p.told = r, pace.TimesOf(r), r.ReloadableConfig()
}

// timeout returns how long this replica currently waits for the others.
func (p *pacing) timeout() time.Duration { return time.Duration(p.now.Load()) }

// answered notes that a peer answered a message that was sent at began.
func (p *pacing) answered(addr string, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if majority, ok := p.trips.Answered(now, addr, now.Sub(began)); ok {
		p.pace.Delayed(now, majority)
	}
}

// run checks raft eight times in the shortest timeout.
func (p *pacing) run(ctx context.Context) {
	period := p.cfg.HeartbeatTimeout / 8
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.look(period)
		case <-ctx.Done():
			return
		}
	}
}

func (p *pacing) look(period time.Duration) {
	var voters []string
	for _, s := range p.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter && string(s.ID) != p.cfg.ID {
			voters = append(voters, string(s.Address))
		}
	}
	_, leader := p.raft.LeaderWithID()
	term, contact := p.raft.CurrentTerm(), p.raft.LastContact()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	// If this process does not get a processor in time, the machine is slow, even if the others answer quickly.
	if !p.looked.IsZero() {
		p.pace.Delayed(now, now.Sub(p.looked)-period)
	}
	p.looked, p.trips.Voters = now, voters
	switch {
	case p.leads:
		p.pace.UnderLeader(now)
	case leader == "":
		p.pace.Leaderless(now)
	default:
		p.pace.Heard(now, string(leader), term, contact)
		if now.Sub(contact) < p.pace.Timeout()/2 {
			p.pace.UnderLeader(now)
		}
	}
	if leader != "" || term != p.term {
		p.resigned = false
	}
	p.tell()
	p.hush()
}

// leading is called when this replica begins or ceases to lead.
func (p *pacing) leading(leads bool) {
	term := p.raft.CurrentTerm()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resigned = p.leads && !leads && term == p.term
	p.leads, p.term = leads, term
	p.sent.Store(time.Now().UnixNano()) // a new leader is not quiet
	p.hush()
	// ReloadConfig would refuse the longer lease of a leader for a follower, and does not change it, so the lease is
	// set back here.
	p.leader.Set(p.cfg.LeaderLease, p.cfg.ElectionTimeout)
	p.told = raft.ReloadableConfig{}
	p.tell()
}

// tell sets the current times in raft. The caller holds the lock.
func (p *pacing) tell() {
	timeout := p.pace.Timeout()
	if before := p.timeout(); timeout != before {
		p.now.Store(int64(timeout))
		p.log.Info("raft timeouts changed", "from", before, "to", timeout, "base", p.cfg.HeartbeatTimeout, "longest_delay", p.pace.Longest())
	}
	longer := timeout - p.cfg.HeartbeatTimeout
	want := p.raft.ReloadableConfig()
	want.HeartbeatTimeout, want.ElectionTimeout = timeout, p.cfg.ElectionTimeout+longer
	if p.leads || p.resigned {
		want.HeartbeatTimeout = p.cfg.HeartbeatTimeout
	}
	if want == p.told {
		return
	}
	if p.told.HeartbeatTimeout != want.HeartbeatTimeout || !p.leads {
		if err := p.raft.ReloadConfig(want); err != nil {
			p.log.Error("raft refuses its timeouts", "error", err)
			return
		}
	}
	if p.leads {
		p.leader.Set(p.cfg.LeaderLease+longer, want.ElectionTimeout)
	}
	p.told = want
}
