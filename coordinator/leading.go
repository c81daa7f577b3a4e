package coordinator

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
)

// lead is all that only the leader does. raftnode calls it once per term, after everything that earlier leaders
// committed is applied here, and waits for it to return.
func (s *server) lead(ctx context.Context, term uint64) {
	s.log.Info("leading", "term", term)
	s.replica.RefreshLeader()
	s.attention.begin()
	due := s.renewals.begin()
	s.rosters.begin(s.replica.View())
	s.sessions.open(ctx, term)
	s.demand.start(s.replica.View().Index())
	s.metrics.totals.begin(s.replica.View())
	s.tickets.begin()
	var loops sync.WaitGroup
	loops.Go(func() { s.attend(ctx, term) })
	loops.Go(func() { s.renew(ctx, term, due) })
	loops.Go(func() { s.distribute(ctx) })
	loops.Go(func() { s.schedule(ctx) })
	loops.Go(func() { s.judge(ctx) })
	loops.Go(func() { s.condemn(ctx) })
	loops.Go(func() { s.tick(ctx) })
	loops.Go(func() { s.noteTokenUse(ctx) })
	loops.Go(func() { s.configure(ctx) })
	loops.Go(func() { s.promote(ctx) })
	<-ctx.Done()
	s.replica.RefreshLeader()
	s.metrics.totals.end()
	s.tickets.end()
	s.sessions.close()
	s.rosters.end()
	s.demand.stop()
	loops.Wait()
	s.log.Info("leading no longer", "term", term, "why", context.Cause(ctx))
}

// tickPace is how often the leader looks whether a Tick is due. Looking costs nothing; a Tick is only written when the
// state says that it would do something.
const (
	tickPace = 200 * time.Millisecond
	// awayPace is how often time passes while nodes are away: what depends on them has no date of its own.
	awayPace = 5 * time.Second
	// settledAfter is the fresh period of a new leader: only then are tasks given up that waited for longer than their jobs
	// would, since whoever was kept away by the outage before has had time to come back.
	settledAfter = 60 * time.Second
)

// tick lets time pass in the state.
func (s *server) tick(ctx context.Context) {
	ticker := time.NewTicker(tickPace)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			v := s.replica.View()
			due, any := v.NextDue()
			if !(any && due <= now.UnixNano()) && !(now.Sub(last) >= awayPace && s.metrics.nodesAway.Load() > 0) {
				continue
			}
			last = now
			for {
				result, err := replica.Propose[fsm.TickResult](ctx, s.replica, s.nextTick())
				if err != nil {
					if ctx.Err() == nil {
						s.log.Warn("tick was not taken", "error", err)
					}
					break
				}
				if !result.More {
					break
				}
			}
		}
	}
}

// nextTick says, besides that time has passed, what the leader knows of the nodes that are away.
func (s *server) nextTick() fsm.Tick {
	var tick fsm.Tick
	tick.Settled = s.listening() && s.sessions.listened() >= settledAfter
	for n := range s.replica.View().Nodes() {
		if n.UnreachableSince != 0 && s.renewsThroughPeers(n.ID) {
			tick.Renewing = append(tick.Renewing, n.ID)
		}
	}
	return tick
}

// renewsThroughPeers says whether renewals of a node that is not in session come through others.
func (s *server) renewsThroughPeers(node string) bool {
	at, through, ok := s.sessions.lastRenewed(node)
	return ok && through && time.Since(at) <= s.config.Timers.UnreachableAfter
}

// judge shows nodes that fell silent as unreachable, and those that are back as reachable. It says no more than that:
// whether such a node is lost takes the votes of a majority and an expired lease (condemn). It also wakes the planner
// while jobs wait of which a task may be alive elsewhere: a node may have been in session for long enough to be given one.
func (s *server) judge(ctx context.Context) {
	patience := s.config.Timers.UnreachableAfter
	ticker := time.NewTicker(max(10*time.Millisecond, patience/10))
	defer ticker.Stop()
	nudged := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if s.listening() {
				s.look(ctx, patience)
			}
			// When a node has been in session for long enough, nothing in the state says so.
			if time.Since(nudged) >= nudgePace && replacementsWait(s.replica.View()) {
				nudged = time.Now()
				s.demand.again()
			}
		}
	}
}

// nudgePace is how often the planner looks for a place for replacements that wait.
const nudgePace = time.Second

// replacementsWait says whether a job waits of which a task may still be alive somewhere. Such a job is a class of its own.
func replacementsWait(v *fsm.View) bool {
	for class := range v.Classes() {
		if j, ok := v.Job(class.Own); ok && j.Replacement() {
			return true
		}
	}
	return false
}

// Why a node is away, as far as the leader can tell.
const (
	silentFor    = "not heard of for "
	throughPeers = " itself; it renews its leases through its peers"
)

// look writes down what changed since the last look.
func (s *server) look(ctx context.Context, patience time.Duration) {
	now, away := time.Now(), 0
	var changes []fsm.SetNode
	for node := range s.replica.View().Nodes() {
		seen, inSession, ok := s.sessions.lastSeen(node.ID)
		if !ok {
			return
		}
		silent := now.Sub(seen) > patience
		if node.UnreachableSince != 0 {
			away++
		}
		why := silentFor + patience.String()
		if silent && s.renewsThroughPeers(node.ID) {
			why += throughPeers
		}
		switch {
		case silent && node.UnreachableSince == 0,
			silent && node.LostSince == 0 && node.Reason != why && strings.HasPrefix(node.Reason, silentFor):
			changes = append(changes, fsm.SetNode{ID: node.ID, Action: fsm.NodeUnreachable, Reason: why})
		case silent || !inSession || node.UnreachableSince == 0:
		case node.LostSince != 0 || node.Unheard:
			// The verdict came while it was on its way back: it must say again what it still runs.
			s.sessions.again(node.ID)
		default:
			changes = append(changes, fsm.SetNode{ID: node.ID, Action: fsm.NodeReachable})
		}
	}
	s.metrics.nodesAway.Store(int64(away))
	s.setNodes(ctx, changes)
}

// maxNodeChanges bounds the changes of nodes that are on their way at a time. They travel together.
const maxNodeChanges = 64

func (s *server) setNodes(ctx context.Context, changes []fsm.SetNode) {
	var writes sync.WaitGroup
	room := make(chan struct{}, maxNodeChanges)
	for _, change := range changes {
		room <- struct{}{}
		writes.Go(func() {
			defer func() { <-room }()
			s.setNode(ctx, change)
			if change.Action == fsm.NodeUnreachable {
				s.sessions.end(change.ID, errSilent)
			}
		})
	}
	writes.Wait()
}

func (s *server) setNode(ctx context.Context, command fsm.SetNode) {
	result, err := replica.Propose[fsm.NodeResult](ctx, s.replica, command)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.log.Warn("node's state was not written", "node", command.ID, "error", err)
	case result.Refusal != nil:
		s.log.Warn("node's state was refused", "node", command.ID, "why", result.Refusal.Message)
	case command.Action == fsm.NodeUnreachable:
		s.log.Warn("node unreachable", "node", command.ID, "why", command.Reason)
	default:
		s.log.Info("node reachable again", "node", command.ID)
	}
}
