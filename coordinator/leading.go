package coordinator

import (
	"context"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// lead is all that only the leader does. raftnode calls it once per term, after everything that earlier leaders
// committed is applied here, and waits for it to return.
func (s *server) lead(ctx context.Context, term uint64) {
	s.log.Info("leading", "term", term)
	s.refreshHint()
	s.sessions.open(ctx, term)
	s.demand.start(s.machine.View().Index())
	var loops sync.WaitGroup
	loops.Go(func() { s.schedule(ctx) })
	loops.Go(func() { s.judge(ctx) })
	loops.Go(func() { s.tick(ctx) })
	<-ctx.Done()
	s.refreshHint()
	s.sessions.close()
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
			v := s.machine.View()
			due, any := v.NextDue()
			if !(any && due <= now.UnixNano()) && !(now.Sub(last) >= awayPace && s.metrics.nodesAway.Load() > 0) {
				continue
			}
			last = now
			for {
				result, err := propose[fsm.TickResult](ctx, s, fsm.Tick{})
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

// judge shows nodes that fell silent as unreachable, and those that are back as reachable. It says no more than that:
// whether such a node is lost takes the votes of a majority and an expired lease, and belongs here when it comes.
func (s *server) judge(ctx context.Context) {
	patience := s.config.Timers.UnreachableAfter
	ticker := time.NewTicker(max(10*time.Millisecond, patience/10))
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := time.Now()
			// A process that was stopped, or starved, heard nobody: that was not the nodes' silence.
			if now.Sub(last) > patience/2 {
				s.sessions.pardon()
			}
			last = now
			away := 0
			for node := range s.machine.View().Nodes() {
				seen, inSession, ok := s.sessions.lastSeen(node.ID)
				if !ok {
					return
				}
				silent := now.Sub(seen) > patience
				if node.UnreachableSince != 0 {
					away++
				}
				switch {
				case silent && node.UnreachableSince == 0 && node.State != v1.NodeState_LOST:
					s.setNode(ctx, fsm.SetNode{ID: node.ID, Action: fsm.NodeUnreachable, Reason: "not heard of for " + patience.String()})
					s.sessions.end(node.ID, errSilent)
				case !silent && inSession && node.UnreachableSince != 0:
					s.setNode(ctx, fsm.SetNode{ID: node.ID, Action: fsm.NodeReachable})
				}
			}
			s.metrics.nodesAway.Store(int64(away))
		}
	}
}

func (s *server) setNode(ctx context.Context, command fsm.SetNode) {
	result, err := propose[fsm.NodeResult](ctx, s, command)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.log.Warn("node's state was not written", "node", command.ID, "error", err)
	case result.Refusal != nil:
		s.log.Warn("node's state was refused", "node", command.ID, "why", result.Refusal.Message)
	case command.Action == fsm.NodeUnreachable:
		s.log.Warn("node unreachable", "node", command.ID)
	default:
		s.log.Info("node reachable again", "node", command.ID)
	}
}
