package members

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/level"
)

const (
	// noteAgain is the pause before the beginning of a term is proposed again.
	noteAgain = time.Second
	// noteWithin is for how long a leader waits for the level of the command, which a new cluster reaches within seconds.
	noteWithin = 30 * time.Second
)

// noteTerm notes that this coordinator leads, and for how long nobody did before. It returns when the term is noted, or when ctx
// ends. A cluster that stays below the level of the command does not note the term at all: later it would look as if the leader
// had changed then.
func (s *Service) noteTerm(ctx context.Context) {
	command := coordinators.NoteTerm{
		Term: s.replica.Raft().Stats().Term, Leader: s.replica.ID(), Gap: int64(s.gap(ctx)), Live: uint32(s.replica.View().LiveJobs()),
	}
	for began := time.Now(); ctx.Err() == nil; {
		_, err := replica.Propose[coordinators.TermResult](ctx, s.replica, command)
		var locked *level.Locked
		if err == nil || errors.As(err, &locked) && time.Since(began) > noteWithin {
			return
		}
		s.log.Debug("the term is not noted yet", "error", err)
		select {
		case <-time.After(noteAgain):
		case <-ctx.Done():
		}
	}
}

// gap returns for how long no write was taken before this coordinator led; 0: unknown. One that was started again since, as a
// leader may be that died, has heard of no leader itself, and asks the others.
func (s *Service) gap(ctx context.Context) time.Duration {
	raft := s.replica.Raft()
	if gap := raft.Gap(time.Time{}); gap > 0 {
		return gap
	}
	noted := uint64(0)
	for t := range s.replica.View().Terms() {
		noted = t.Number
		break
	}
	var others []string
	for _, p := range raft.Peers() {
		if p.ID != s.replica.ID() {
			others = append(others, p.ID)
		}
	}
	var mu sync.Mutex
	var heard time.Time
	s.replica.AskAll(ctx, noteAgain, others, func(ctx context.Context, _ int, asked v1.OperatorServiceClient) {
		told, err := asked.DescribeReplica(ctx, &v1.DescribeReplicaRequest{CoordinatorId: s.replica.ID(), FiguresOnly: true})
		// A leader that it lost before the newest term that is noted was another.
		if err != nil || told.GetLostTerm() == 0 || told.GetLostTerm() < noted {
			return
		}
		at := time.Now().Add(-time.Duration(told.GetLostNs()))
		mu.Lock()
		defer mu.Unlock()
		if at.After(heard) {
			heard = at
		}
	})
	if heard.IsZero() {
		return 0
	}
	return raft.Gap(heard)
}
