package upgrade

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/coordinators"
	"github.com/mindcoordinator/mind/fsm/level"
)

const (
	// askTime bounds one round of questions to the other coordinators.
	askTime = time.Second
	// pace is how often a leader asks while the level could be raised.
	pace = 2 * time.Second
	// firstTime bounds how long the first leader of a cluster waits for the others to answer which levels they support.
	firstTime = 2 * time.Second
	firstPace = 50 * time.Millisecond
)

// Config configures a Service.
type Config struct {
	Replica *replica.Replica
	// Listed are the initial voters, for as long as the state does not have their addresses.
	Listed []coordinators.Coordinator
	// Manual: only an operator raises the level.
	Manual bool
	// Program is the version of mind that this coordinator runs.
	Program string
	// Changing is held while the level is raised, and while a coordinator is added.
	Changing sync.Locker
	Log      *slog.Logger
}

// Service implements the methods of OperatorService about the feature level, and raises it.
type Service struct {
	replica  *replica.Replica
	listed   []coordinators.Coordinator
	manual   bool
	program  string
	changing sync.Locker
	log      *slog.Logger
}

// New makes a service.
func New(c Config) *Service {
	return &Service{replica: c.Replica, listed: c.Listed, manual: c.Manual, program: c.Program, changing: c.Changing, log: c.Log}
}

// First raises the level of a cluster that has no nodes and no jobs yet, so that the cluster begins at the newest level
// of its coordinators. The term begins when First returns.
func (s *Service) First(ctx context.Context) {
	if !unused(s.replica.View()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstTime)
	defer cancel()
	for ctx.Err() == nil && s.replica.View().Level() < level.Supported().Newest {
		if _, why, err := s.raise(ctx, nil); err == nil && why == "" {
			return
		}
		wait.For(ctx, firstPace)
	}
}

// unused reports whether a cluster has no nodes and no jobs yet.
func unused(v *fsm.View) bool {
	for range v.Nodes() {
		return false
	}
	for range v.Jobs(false, 0) {
		return false
	}
	return true
}

// Lead raises the level when all coordinators support a higher one, for one term. It returns when the level is the newest that
// this version of mind supports, or when ctx has ended.
func (s *Service) Lead(ctx context.Context) {
	told := ""
	for ctx.Err() == nil && s.replica.View().Level() < level.Supported().Newest {
		why, err := "", error(nil)
		if s.manual {
			_, _, why = s.possible(ctx)
			if why == "" {
				why = "an operator has to run `mind raft level raise`"
			}
		} else {
			_, why, err = s.raise(ctx, nil)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the feature level was not raised", "error", err)
		}
		if why != "" && why != told {
			s.log.Info("the feature level stays", "level", s.replica.View().Level(), "newest", level.Supported().Newest, "why", why)
			told = why
		}
		wait.For(ctx, pace)
	}
}

// raise raises the level as far as all coordinators support it, and returns why not further.
func (s *Service) raise(ctx context.Context, who *access.Actor) (from level.Level, why string, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	v := s.replica.View()
	from = v.Level()
	to, _, why := s.possible(ctx)
	if to <= from {
		return from, why, nil
	}
	result, err := replica.Propose[coordinators.RaiseLevelResult](ctx, s.replica.AtOnce(), coordinators.RaiseLevel{To: to, VotersIndex: v.VotersIndex(), Actor: who})
	if err != nil {
		return from, why, err
	}
	if result.Refusal != nil {
		return from, why, call.Refused(result.Refusal)
	}
	s.log.Info("the feature level was raised", "from", from, "to", to)
	return from, why, nil
}

// possible asks every coordinator which levels it supports.
func (s *Service) possible(ctx context.Context) (to level.Level, answers []*v1.SupportedLevels, why string) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var calls sync.WaitGroup
	for _, p := range s.replica.Raft().Peers() {
		one := &v1.SupportedLevels{CoordinatorId: p.ID, Voter: p.Voter}
		answers = append(answers, one)
		calls.Go(func() {
			levels, program, err := s.ask(ctx, p.ID)
			if err != nil {
				one.Reason = grpcstatus.Convert(err).Message()
				return
			}
			one.OldestLevel, one.NewestLevel, one.Program = uint32(levels.Oldest), uint32(levels.Newest), program
		})
	}
	calls.Wait()
	to, why = next(s.replica.View().Level(), level.Supported().Newest, answers)
	return to, answers, why
}

// ask asks one coordinator.
func (s *Service) ask(ctx context.Context, id string) (supports level.Range, program string, err error) {
	if id == s.replica.ID() {
		return level.Supported(), s.program, nil
	}
	conn, err := s.replica.Link(s.address(id))
	if err != nil {
		return supports, "", err
	}
	answer, err := v1.NewOperatorServiceClient(conn).DescribeReplica(s.replica.AsReplica(ctx), &v1.DescribeReplicaRequest{CoordinatorId: s.replica.ID()})
	switch {
	case err != nil:
		return supports, "", err
	case answer.GetCoordinatorId() != id:
		return supports, "", fmt.Errorf("%s answers at its address", answer.GetCoordinatorId())
	}
	return Levels(answer.GetOldestLevel(), answer.GetNewestLevel()), answer.GetProgram(), nil
}

// address returns the gRPC address of a coordinator; empty: it is not known.
func (s *Service) address(id string) string {
	if row, ok := s.replica.View().Coordinator(id); ok {
		return row.GRPCAddr
	}
	for _, c := range s.listed {
		if c.ID == id {
			return c.GRPCAddr
		}
	}
	return ""
}

// GetFeatureLevel implements v1.OperatorServiceServer. It is answered without a leader, too.
func (s *Service) GetFeatureLevel(ctx context.Context, _ *v1.GetFeatureLevelRequest) (*v1.GetFeatureLevelResponse, error) {
	to, answers, why := s.possible(ctx)
	now := s.replica.View().Level()
	out := &v1.GetFeatureLevelResponse{Level: uint32(now), PossibleLevel: uint32(to), Coordinators: answers, WaitsFor: why}
	for l := now + 1; l <= level.Supported().Newest; l++ {
		out.Locked = append(out.Locked, &v1.FeatureLevel{Level: uint32(l), Unlocks: level.Unlocks(l)})
	}
	if why == "" && to > now && s.manual {
		out.WaitsFor = "`mind raft level raise` (raise: manual)"
	}
	return out, nil
}

// RaiseFeatureLevel implements v1.OperatorServiceServer.
func (s *Service) RaiseFeatureLevel(ctx context.Context, _ *v1.RaiseFeatureLevelRequest) (*v1.RaiseFeatureLevelResponse, error) {
	from, why, err := s.raise(ctx, call.Of(ctx).OperatorActor())
	if err != nil {
		return nil, err
	}
	now := s.replica.View().Level()
	if now == from && why != "" {
		return nil, call.Errorf(codes.FailedPrecondition, "the feature level stays at %d: %s", now, why)
	}
	return &v1.RaiseFeatureLevelResponse{Level: uint32(now), From: uint32(from)}, nil
}
