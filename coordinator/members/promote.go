package members

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/coordinators"
)

// promotePace is how often the leader checks the learners.
const promotePace = 500 * time.Millisecond

// term has the leader's data about the learners in one term.
type term struct {
	// waits has, by id, the reason why a learner is not a voter yet.
	waits sync.Map
}

// Lead makes learners voters, and removes those that never keep up, for one term. It returns when ctx has ended.
func (s *Service) Lead(ctx context.Context) {
	now := &term{}
	s.term.Store(now)
	defer s.term.Store(nil)
	var noting sync.WaitGroup
	noting.Go(func() { s.noteTerm(ctx) })
	defer noting.Wait()
	ticker := time.NewTicker(promotePace)
	defer ticker.Stop()
	watch := learners{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m := s.membership()
		watch.look(m)
		for id := range watch {
			fate, why := watch.fate(m, id)
			switch fate {
			case learnerWaits:
				now.waits.Store(id, why)
			case learnerReady:
				s.giveVote(ctx, now, m, id)
			case learnerGivenUp:
				s.giveUpLearner(ctx, now, id, why)
			}
		}
	}
}

func (s *Service) giveVote(ctx context.Context, now *term, m *membership, id string) {
	p, _ := m.find(id)
	if err := s.replica.Raft().AddVoter(ctx, id, p.Addr); err != nil {
		s.log.Warn("learner was not given a vote", "id", id, "error", err)
		return
	}
	now.waits.Delete(id)
	s.log.Info("learner is a voter now", "id", id, "raft_addr", p.Addr)
}

func (s *Service) giveUpLearner(ctx context.Context, now *term, id, why string) {
	s.log.Warn("learner is given up; start its coordinator with an empty data_dir to have it join once more", "id", id, "after", giveUpAfter, "why", why)
	if err := s.replica.Raft().RemoveServer(ctx, id); err != nil {
		s.log.Warn("learner was not taken out", "id", id, "error", err)
		return
	}
	now.waits.Delete(id)
	if _, err := replica.Propose[coordinators.CoordinatorResult](ctx, s.replica, coordinators.DeleteCoordinator{ID: id}); err != nil {
		s.log.Warn("learner's addresses were not forgotten", "id", id, "error", err)
	}
}

// learners has the leader's data about the learners, by id.
type learners map[string]*learner

type learner struct {
	since time.Time // first seen by this leader
	close time.Time // up to date since then; zero: it is not
}

// look records which learners keep up.
func (l learners) look(m *membership) {
	for id := range l {
		if p, ok := m.find(id); !ok || p.Voter {
			delete(l, id)
		}
	}
	for _, p := range m.peers {
		if p.Voter {
			continue
		}
		known := l[p.ID]
		if known == nil {
			known = &learner{since: m.now}
			l[p.ID] = known
		}
		switch {
		case !m.answers(p) || m.lag(p) > promoteWithin:
			known.close = time.Time{}
		case known.close.IsZero():
			known.close = m.now
		}
	}
}

// fate is the decision about a learner.
type fate uint8

const (
	learnerWaits fate = iota
	learnerReady
	learnerGivenUp
)

// fate decides about a learner, and returns what it waits for.
func (l learners) fate(m *membership, id string) (fate, string) {
	known := l[id]
	p, _ := m.find(id)
	why := ""
	switch {
	case !m.answers(p):
		why = "it does not answer"
	case known.close.IsZero():
		why = fmt.Sprintf("it lacks %d entries; at most %d are allowed", m.lag(p), promoteWithin)
	case m.now.Sub(known.close) < promoteAfter:
		why = fmt.Sprintf("it has kept up for %s; it takes %s", m.now.Sub(known.close).Round(time.Second), promoteAfter)
	default:
		if why = m.mayPromote(id); why == "" {
			return learnerReady, ""
		}
	}
	if m.now.Sub(known.since) >= giveUpAfter {
		return learnerGivenUp, why
	}
	return learnerWaits, why
}
