package admin

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// The effects of a drain on a job.
const (
	effectRuns       = "runs to its end"
	effectAtDeadline = "is stopped at the deadline"
	effectNow        = "is stopped now"
	effectStopping   = "is being stopped already"
	effectAway       = "is stopped when the node is back, or lost"

	thenRequeued = " and requeued"
	thenOver     = ", and is over: it is not restartable"
)

// DrainNode drains a node, or previews the effect.
func (s *Service) DrainNode(ctx context.Context, req *v1.DrainNodeRequest) (*v1.DrainNodeResponse, error) {
	switch {
	case req.GetDeadlineSeconds() < 0:
		return nil, call.Bad("deadline_seconds", "must not be negative")
	case len(req.GetReason()) > call.MaxReason:
		return nil, call.Bad("reason", "must have at most %d bytes", call.MaxReason)
	}
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	c := call.Of(ctx)
	n, ok := v.Node(req.GetNodeId())
	if !ok {
		return nil, call.NotFound("node", req.GetNodeId())
	}
	effects := drainEffects(v, n, c.Tenant, req.GetForce(), time.Duration(req.GetDeadlineSeconds())*time.Second)
	if req.GetDryRun() {
		return &v1.DrainNodeResponse{Node: nodeView(v, n, c, s.activity(ctx, n.ID)), Effects: effects}, nil
	}
	why := reason.Text(req.GetReason())
	if why == "" && n.Drain != nil && n.Drain.Reason.Code() == 0 {
		why = n.Drain.Reason // the words of a person; a drain by a maintenance has none
	}
	changed, err := s.changeNode(ctx, nodeverbs.SetNode{
		ID: req.GetNodeId(), Action: nodeverbs.NodeDrain, Reason: why, Force: req.GetForce(),
		Deadline: int64(req.GetDeadlineSeconds()) * int64(time.Second), Actor: c.Actor(),
	})
	if err != nil {
		return nil, err
	}
	return &v1.DrainNodeResponse{Node: changed, Effects: effects}, nil
}

// drainEffects lists what a drain that starts now would do to each job on the node; jobs of other tenants have only an
// effect.
func drainEffects(v *fsm.View, n *work.Node, tenant string, force bool, deadline time.Duration) []*v1.DrainEffect {
	now := max(v.Now(), time.Now().UnixNano())
	var effects []*v1.DrainEffect
	seen := map[ident.Job]bool{}
	for lease := range v.LeasesOn(n.ID) {
		j, ok := v.Job(lease.Job)
		if !ok || seen[j.ID] {
			continue
		}
		seen[j.ID] = true
		e := &v1.DrainEffect{Effect: effectRuns}
		switch at := now + int64(deadline); {
		case j.Stop != v1.StopReason_UNSPECIFIED:
			e.Effect = effectStopping
			if j.Tenant == tenant {
				e.Effect += " (" + j.Stop.String() + ")"
			}
		case force && n.UnreachableSince != 0:
			e.Effect = effectAway
		case force:
			e.Effect, e.StopsAt = effectNow, call.Time(now)
		case deadline > 0 && !endsBefore(j, at):
			e.Effect, e.StopsAt = effectAtDeadline, call.Time(at)
		}
		stopped := j.Stop == v1.StopReason_UNSPECIFIED && e.Effect != effectRuns
		switch {
		case stopped && j.Retry.Never:
			e.Effect += thenOver
		case stopped:
			e.Effect += thenRequeued
		}
		if j.Tenant == tenant {
			e.JobId, e.Name = j.ID.String(), j.Name
			if stopped && !j.Retry.Never {
				e.ResumesFrom = resumesFrom(j)
			}
		}
		effects = append(effects, e)
	}
	return effects
}

// endsBefore reports whether a job's own time limit ends it before a time.
func endsBefore(j *work.Job, at int64) bool {
	return j.MaxRuntime > 0 && j.StartedAt != 0 && j.StartedAt+j.MaxRuntime <= at
}

// resumesFrom returns the checkpoint that the next attempt would currently resume from.
func resumesFrom(j *work.Job) string {
	switch {
	case j.LastCheckpoint != 0:
		return j.LastCheckpoint.String()
	case j.ResumeFrom != 0:
		return j.ResumeFrom.String()
	}
	return ""
}

// EnableNode ends a drain.
func (s *Service) EnableNode(ctx context.Context, req *v1.EnableNodeRequest) (*v1.EnableNodeResponse, error) {
	n, err := s.changeNode(ctx, nodeverbs.SetNode{ID: req.GetNodeId(), Action: nodeverbs.NodeEnable, Actor: call.Of(ctx).Actor()})
	return &v1.EnableNodeResponse{Node: n}, err
}

// ForgetNode removes a node; an operator has confirmed that none of its processes is alive. It is refused while that is
// doubtful: while the node's agent is in session, or was until a moment ago.
func (s *Service) ForgetNode(ctx context.Context, req *v1.ForgetNodeRequest) (*v1.ForgetNodeResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	n, ok := v.Node(req.GetNodeId())
	if !ok {
		return nil, call.NotFound("node", req.GetNodeId())
	}
	inSession, leading := s.sessions.InSession(n.ID)
	switch {
	case !leading:
		return nil, call.NotSent("%s has just become the leader, or is no longer the leader", s.replica.ID())
	case inSession:
		return nil, call.Errorf(codes.FailedPrecondition, "node %s is in session: stop its agent first", n.ID)
	case s.sessions.RenewsThroughPeers(n.ID):
		return nil, call.Errorf(codes.FailedPrecondition, "node %s is cut off but alive: its leases are renewed through other nodes. Stop its agent first", n.ID)
	case n.UnreachableSince == 0 && n.State != v1.NodeState_LOST:
		return nil, call.Errorf(codes.FailedPrecondition, "node %s was in contact a moment ago: stop its agent, and try again when the node is shown as UNREACHABLE", n.ID)
	}
	result, err := replica.Propose[nodeverbs.NodeResult](ctx, s.replica, nodeverbs.SetNode{ID: n.ID, Action: nodeverbs.NodeForget, Actor: call.Of(ctx).Actor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	s.log.Warn("node forgotten by an operator", "node", n.ID, "request_id", call.Of(ctx).RequestID)
	return &v1.ForgetNodeResponse{}, nil
}

func (s *Service) changeNode(ctx context.Context, command nodeverbs.SetNode) (*v1.Node, error) {
	result, err := replica.Propose[nodeverbs.NodeResult](ctx, s.replica, command)
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	case result.Node == nil:
		return nil, call.NotFound("node", command.ID)
	}
	return nodeView(s.replica.View(), result.Node, call.Of(ctx), s.activity(ctx, command.ID)), nil
}
