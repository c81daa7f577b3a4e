package admin

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

const (
	// figuresTime bounds each of the two questions to the other coordinators: one that is dead does not answer at all.
	figuresTime = time.Second
	// sharedFor is for how long callers share one answer, so that any number of them costs the coordinators the same.
	sharedFor = 500 * time.Millisecond
)

// shared keeps the newest answer for those who ask at nearly the same time.
type shared struct {
	mu     sync.Mutex
	asking chan struct{} // closed when the answer is there; nil: nobody asks
	answer *v1.ListCoordinatorsResponse
	at     time.Time
}

// get returns an answer that is not older than sharedFor, or waits for one. ask runs without the context of a caller,
// because others wait for it too.
func (s *shared) get(ctx context.Context, ask func() *v1.ListCoordinatorsResponse) (*v1.ListCoordinatorsResponse, error) {
	for {
		s.mu.Lock()
		if s.answer != nil && time.Since(s.at) < sharedFor {
			defer s.mu.Unlock()
			return s.answer, nil
		}
		wait := s.asking
		if wait == nil {
			wait = make(chan struct{})
			s.asking = wait
			s.mu.Unlock()
			return s.answerAll(ask, wait), nil
		}
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// answerAll asks, and lets all who wait see the answer; also when ask panics, so that nobody waits for ever.
func (s *shared) answerAll(ask func() *v1.ListCoordinatorsResponse, wait chan struct{}) (answer *v1.ListCoordinatorsResponse) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answer, s.at, s.asking = answer, time.Now(), nil
		close(wait)
	}()
	return ask()
}

// ListCoordinators asks every coordinator for its term, its indices and its hash. It needs no leader, because operators
// look at this most when there is none.
func (s *Service) ListCoordinators(ctx context.Context, _ *v1.ListCoordinatorsRequest) (*v1.ListCoordinatorsResponse, error) {
	call.Of(ctx).Index.Store(s.replica.View().Index())
	return s.asked.get(ctx, func() *v1.ListCoordinatorsResponse { return s.describeAll(context.WithoutCancel(ctx)) })
}

func (s *Service) describeAll(ctx context.Context) *v1.ListCoordinatorsResponse {
	out := &v1.ListCoordinatorsResponse{AnsweredBy: s.replica.ID(), FeatureLevel: uint32(s.replica.View().Level())}
	out.Leader, _ = s.replica.Raft().Leader()
	liveness, voters := s.liveness(), 0
	var ids []string
	for _, p := range s.replica.Raft().Peers() {
		out.Coordinators = append(out.Coordinators, &v1.Coordinator{Id: p.ID, Leader: p.Leader, Voter: p.Voter, Liveness: liveness(p.ID)})
		ids = append(ids, p.ID)
		if p.Voter {
			voters++
		}
	}
	out.Quorum = int32(voters/2 + 1)
	states := make([]uint64, len(out.GetCoordinators())) // the newest entry of each; 0: it has no data
	s.replica.AskAll(ctx, figuresTime, ids, func(ctx context.Context, i int, asked v1.OperatorServiceClient) {
		states[i] = s.describe(ctx, out.GetCoordinators()[i], asked)
	})
	newest := uint64(0)
	for i, c := range out.GetCoordinators() {
		if states[i] == 0 {
			continue
		}
		if c.GetVoter() {
			out.VotersReachable++
		}
		out.Term, newest = max(out.Term, c.GetTerm()), max(newest, c.GetLastIndex())
		if out.HashIndex == 0 || states[i] < out.HashIndex {
			out.HashIndex = states[i]
		}
	}
	s.replica.AskAll(ctx, figuresTime, ids, func(ctx context.Context, i int, asked v1.OperatorServiceClient) {
		c := out.GetCoordinators()[i]
		if states[i] == 0 {
			return
		}
		c.Lag = newest - min(newest, c.GetAppliedIndex())
		if at, err := asked.GetStateHash(ctx, &v1.GetStateHashRequest{Index: out.GetHashIndex()}); err == nil && at.GetIndex() == out.GetHashIndex() {
			c.StateHash = at.GetHash()
		}
	})
	out.Hashes = agreement(out.GetCoordinators(), states)
	return out
}

// agreement compares the hashes of the coordinators that have data. Versions that keep other fields hash something else: the
// part of a hash before its dash says what.
func agreement(all []*v1.Coordinator, states []uint64) v1.HashAgreement_Value {
	known, hashes := true, map[string]string{}
	for i, c := range all {
		if states[i] == 0 {
			continue
		}
		format, _, _ := strings.Cut(c.GetStateHash(), "-")
		if c.GetStateHash() == "" {
			known = false
			continue
		}
		if other, seen := hashes[format]; seen && other != c.GetStateHash() {
			return v1.HashAgreement_DIFFER
		}
		hashes[format] = c.GetStateHash()
	}
	if !known || len(hashes) != 1 {
		return v1.HashAgreement_UNKNOWN
	}
	return v1.HashAgreement_AGREE
}

// describe asks one coordinator, which may be this one, for its figures. It returns the newest entry in its state; 0: it does not
// answer, or has no data yet.
func (s *Service) describe(ctx context.Context, c *v1.Coordinator, asked v1.OperatorServiceClient) uint64 {
	found, err := asked.DescribeReplica(ctx, &v1.DescribeReplicaRequest{CoordinatorId: s.replica.ID(), FiguresOnly: true})
	if err != nil || found.GetCoordinatorId() != c.GetId() {
		return 0
	}
	proto.Merge(c, &v1.Coordinator{
		Reachable: true, State: found.GetState().String(), Term: found.GetTerm(), LastIndex: found.GetLastIndex(), AppliedIndex: found.GetAppliedIndex(),
		Program: found.GetProgram(), OldestLevel: found.GetOldestLevel(), NewestLevel: found.GetNewestLevel(),
	})
	return found.GetStateIndex()
}
