package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/explain"
	"github.com/mindcoordinator/mind/coordinator/forecast"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/replay"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/foresee"
)

// ExplainJob explains why a job has its status, or had it at an earlier moment.
func (s *Service) ExplainJob(ctx context.Context, req *v1.ExplainJobRequest) (*v1.ExplainJobResponse, error) {
	v, err := s.state.Read(ctx)
	if err != nil {
		return nil, err
	}
	// A caller that may see the job now may see its past.
	j, err := call.Of(ctx).Job(v, req.GetJobId())
	if err != nil {
		return nil, err
	}
	if req.GetAtIndex() != 0 || req.GetAtTime() != nil {
		return s.explainPast(ctx, v, j, req)
	}
	now := time.Now()
	out, err := s.explain(ctx, scene{v, j, now, s.forecasts.Job(ctx, v, j)}, req)
	if err == nil && out.GetEstimatedStartAt() != nil {
		out.EstimateError = s.forecasts.Errors.Of(j.Tenant)
		out.Details = append(out.Details, forecast.SayErrors(out.EstimateError)...)
	}
	return out, err
}

// scene is a job with the state at a moment.
type scene struct {
	view     *fsm.View
	job      *work.Job
	now      time.Time
	foreseen *foresee.Forecast
}

func (s *Service) explain(ctx context.Context, c scene, req *v1.ExplainJobRequest) (_ *v1.ExplainJobResponse, err error) {
	v, j := c.view, c.job
	seen := jobview.Of(v, j, true)
	out := &v1.ExplainJobResponse{JobId: seen.JobId, State: j.State, Status: seen.Status, Reason: seen.Reason, QueuePosition: seen.QueuePosition}
	if j.State == v1.JobState_QUEUED {
		out.Details = forecast.Explain(c.foreseen, j, c.now)
		if at, ok := forecast.StartOf(c.foreseen, j); ok {
			out.EstimatedStartAt = timestamppb.New(at)
		}
		out.StartsAfter = forecast.After(c.foreseen, j)
	}
	out.Details = append(out.Details, jobview.Explain(v, j, c.now)...)
	out.Obstacles = explain.Obstacles(v, j, jobview.Said(v, j))
	if len(req.GetWhatIf()) > 0 {
		out.WhatIf, err = s.explainer.WhatIf(ctx, v, j, c.now, req.GetWhatIf())
		return out, err
	}
	if req.Remedies == nil || req.GetRemedies() {
		looked := false
		out.Remedies, looked = s.explainer.Remedies(ctx, v, j, c.now)
		out.RemediesOmitted = !looked
	}
	return out, nil
}

// explainPast explains a job as it was at an earlier moment. now and j are the present state and job.
func (s *Service) explainPast(ctx context.Context, now *fsm.View, j *work.Job, req *v1.ExplainJobRequest) (out *v1.ExplainJobResponse, err error) {
	at := replay.Moment{Index: req.GetAtIndex()}
	if t := req.GetAtTime(); t != nil {
		at.Time = t.AsTime()
		switch {
		case at.Index != 0:
			return nil, call.Bad("at", "give an index or a time, not both")
		case t.CheckValid() != nil:
			return nil, call.Bad("at", "is not a time")
		case at.Time.After(time.Unix(0, max(now.Now(), time.Now().UnixNano()))):
			return nil, call.Bad("at", "%s is still to come: only what was decided can be explained", at.Time.Format(time.RFC3339))
		}
	}
	err = s.replays.See(ctx, at, j.ID, func(past *replay.Past) (err error) {
		was, ok := past.View.Find(j.ID)
		if !ok {
			return call.Bad("at", "%s did not exist yet at entry %d: it was submitted at entry %d (%s); ask for that or for a later moment",
				j.ID, past.Index, j.Created, clock(time.Unix(0, j.CreatedAt)))
		}
		if out, err = s.explain(ctx, scene{past.View, was, past.Time, forecast.Past(past.View, was, past.Time)}, req); err != nil {
			return err
		}
		out.At = &v1.ExplainedMoment{
			Index: past.Index, Time: timestamppb.New(past.Time), Attempt: int32(was.Attempt), NodeIds: work.TaskNodes(was.Tasks),
			LastChange: change(past.Last),
		}
		return nil
	})
	return out, err
}

func change(c *replay.Change) *v1.JobChange {
	if c == nil {
		return nil
	}
	out := &v1.JobChange{
		Index: c.Index, Time: timestamppb.New(c.Time), From: c.From, To: c.To, Stopping: c.Stop, Attempt: int32(c.Attempt), NodeIds: c.Nodes,
	}
	switch {
	case c.From == c.To:
		out.Message = fmt.Sprintf("attempt %d was asked to stop (%s)", c.Attempt, c.Stop)
	case c.From == v1.JobState_UNSPECIFIED:
		out.Message = "it was submitted"
	case c.To == v1.JobState_ALLOCATED:
		out.Message = fmt.Sprintf("attempt %d got its places on %s", c.Attempt, strings.Join(c.Nodes, ", "))
	default:
		out.Message = fmt.Sprintf("it went from %s to %s", c.From, c.To)
	}
	return out
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
