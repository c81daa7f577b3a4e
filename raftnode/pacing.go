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

// pacing tells pace what happens, and raft what pace decides.
//
// Raft has one timeout for two things: how long a follower waits for its leader,
// and, a tenth of it, how often a leader speaks. So a replica that leads has the
// base, however patient it would be as a follower: its followers may have
// started just now, and have the base too. Its patience goes into its lease.
//
// A leader that stepped down by itself, because it heard too little of the
// others, also has the base until somebody leads. They still take it for their
// leader and would vote for nobody else, so it should stand first.
type pacing struct {
	cfg Config
	log *slog.Logger
	// Set by begin, before which only answered and timeout are called.
	raft   *raft.Raft
	leader pace.LeaderTimes

	mu       sync.Mutex
	pace     *pace.Pace
	trips    pace.RoundTrips
	leads    bool
	resigned bool
	term     uint64 // in which it leads, or resigned
	looked   time.Time
	told     raft.ReloadableConfig

	// now is what pace said last.
	now atomic.Int64

	// sent is when the last entry was proposed here, in nanoseconds since 1970; quiet: that is a while ago, and the
	// followers are told at a slower pace what is committed.
	sent  atomic.Int64
	quiet atomic.Bool
}

// A leader that was asked to write nothing for quietAfter has nothing to tell its followers but that it is there, which
// heartbeats do. From then on its empty messages come quietPace times less often.
const (
	quietAfter = time.Second
	quietPace  = 20
)

// sending is told that an entry is about to be proposed.
func (p *pacing) sending() {
	p.sent.Store(time.Now().UnixNano())
	if p.quiet.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hush()
	}
}

// hush sets the pace of the empty messages; the lock is held. It says that it is quiet before it looks whether it is: so an
// entry that comes in between is seen here, or sees it.
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

// begin takes raft up, before it says anything.
func (p *pacing) begin(r *raft.Raft) {
	p.raft, p.leader, p.told = r, pace.TimesOf(r), r.ReloadableConfig()
}

// timeout is how long this replica waits for the others now.
func (p *pacing) timeout() time.Duration { return time.Duration(p.now.Load()) }

// answered is told that a peer answered what it was asked at began.
func (p *pacing) answered(addr string, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if majority, ok := p.trips.Answered(now, addr, now.Sub(began)); ok {
		p.pace.Delayed(now, majority)
	}
}

// run looks at raft eight times in the shortest timeout.
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
	// A process that gets no processor is slow, whatever it sees of the others.
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

// leading is called when this replica begins or ceases to lead. Raft waits
// meanwhile.
func (p *pacing) leading(leads bool) {
	term := p.raft.CurrentTerm()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resigned = p.leads && !leads && term == p.term
	p.leads, p.term = leads, term
	p.sent.Store(time.Now().UnixNano()) // a new leader has something to tell
	p.hush()
	// What a leader has, raft would not take for a follower, nor change it.
	p.leader.Set(p.cfg.LeaderLease, p.cfg.ElectionTimeout)
	p.told = raft.ReloadableConfig{}
	p.tell()
}

// tell gives raft the times of the moment; the lock is held.
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
