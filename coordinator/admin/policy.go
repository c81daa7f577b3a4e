package admin

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/policy"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// GetPolicy shows the policy of the scheduler.
func (s *Service) GetPolicy(ctx context.Context, _ *v1.GetPolicyRequest) (*v1.GetPolicyResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	p := v.Policy()
	return &v1.GetPolicyResponse{Policy: policyView(&p, call.Of(ctx).Operator)}, nil
}

// PutPolicy changes the values of the policy that the request has.
func (s *Service) PutPolicy(ctx context.Context, req *v1.PutPolicyRequest) (*v1.PutPolicyResponse, error) {
	c := call.Of(ctx)
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	p := v.Policy()
	base := p.Revision
	to := req.GetPolicy()
	if to == nil {
		return nil, call.Bad("policy", "is missing")
	}
	if err := ChangePolicy(&p, to); err != nil {
		return nil, err
	}
	p.UpdatedBy = c.User
	result, err := replica.Propose[queueverbs.PolicyResult](ctx, s.replica, queueverbs.PutPolicy{Policy: p, Base: base, Actor: c.Actor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return &v1.PutPolicyResponse{Policy: policyView(result.Policy, c.Operator), Changed: result.Changed}, nil
}

// ChangePolicy sets the values that a request has in a policy. The error says what is wrong with the result.
func ChangePolicy(p *policy.Policy, to *v1.Policy) error {
	if to.Order != nil {
		order, err := policy.ParseOrder(to.GetOrder())
		if err != nil {
			return call.Bad("order", "%s", err)
		}
		p.Order = order
	}
	pre, fill := to.GetPreemption(), to.GetBackfill()
	if pre == nil {
		pre = &v1.PreemptionPolicy{}
	}
	if fill == nil {
		fill = &v1.BackfillPolicy{}
	}
	if s := to.GetAgingStepSeconds(); s < 0 || s > 0 && s < 60 {
		return call.Bad("policy", "aging_step_seconds is %d: use 60 to 31536000, or 0 for none", s)
	}
	for _, v := range []struct {
		to      *int64
		seconds *int32
	}{
		{&p.HalfLife, to.HalfLifeSeconds},
		{&p.AgingStep, to.AgingStepSeconds},
		{&p.Preemption.Protect, pre.ProtectSeconds},
		{&p.Preemption.ProtectFromPriority, pre.ProtectFromPrioritySeconds},
		{&p.Preemption.Every, pre.EverySeconds},
		{&p.Preemption.RestartCost, pre.RestartCostSeconds},
		{&p.Backfill.After, fill.AfterSeconds},
		{&p.Hold, to.HoldSeconds},
		{&p.KeepSpecs, to.KeepSpecsSeconds},
	} {
		if v.seconds != nil {
			*v.to = int64(*v.seconds) * int64(time.Second)
		}
	}
	for _, v := range []struct {
		to   *uint32
		n    *int32
		name string
	}{{&p.Preemption.Ratio, pre.Ratio, "preemption.ratio"}, {&p.Backfill.Reservations, fill.Reservations, "backfill.reservations"}, {&p.KeepFinished, to.KeepFinished, "keep_finished"}} {
		if v.n == nil {
			continue
		}
		if *v.n < 0 {
			return call.Bad(v.name, "must be 0 or more")
		}
		*v.to = uint32(*v.n)
	}
	for name, n := range map[string]*int32{"keep_finished": to.KeepFinished, "keep_specs_seconds": to.KeepSpecsSeconds} {
		if n != nil && *n == 0 {
			return call.Bad(name, "must be more than 0")
		}
	}
	if pre.Enabled != nil {
		p.Preemption.Enabled = *pre.Enabled
	}
	if to.HoursGracePercent != nil {
		if p.HoursGrace = proto.Int32(*to.HoursGracePercent); *p.HoursGrace == policy.DefaultHoursGrace {
			p.HoursGrace = nil
		}
	}
	if net := to.GetTopology(); net != nil && net.Levels != nil {
		p.Levels = net.GetLevels()
		if p.Levels == domains.Default {
			p.Levels = ""
		}
	}
	if err := p.Validate(); err != nil {
		return call.Bad("policy", "%s", err)
	}
	return nil
}

// policyView returns a policy as callers see it. The user who set it may be of another tenant, so only operators see
// this user.
func policyView(p *policy.Policy, operator bool) *v1.Policy {
	seconds := func(ns int64) *int32 { return proto.Int32(int32(ns / int64(time.Second))) }
	out := &v1.Policy{
		Order: proto.String(p.Order.String()), HalfLifeSeconds: seconds(p.HalfLife), AgingStepSeconds: seconds(p.AgingStep),
		Preemption: &v1.PreemptionPolicy{
			Enabled: proto.Bool(p.Preemption.Enabled), ProtectSeconds: seconds(p.Preemption.Protect),
			Ratio: proto.Int32(int32(p.Preemption.Ratio)), EverySeconds: seconds(p.Preemption.Every),
			RestartCostSeconds: seconds(p.Preemption.RestartCost), ProtectFromPrioritySeconds: seconds(p.Preemption.ProtectFromPriority),
		},
		Backfill:    &v1.BackfillPolicy{Reservations: proto.Int32(int32(p.Backfill.Reservations)), AfterSeconds: seconds(p.Backfill.After)},
		HoldSeconds: seconds(p.Hold),
		Topology:    &v1.TopologyPolicy{Levels: proto.String(cmp.Or(p.Levels, domains.Default))},
		Revision:    p.Revision,

		KeepFinished: proto.Int32(int32(cmp.Or(p.KeepFinished, policy.DefaultKeepFinished))), KeepSpecsSeconds: seconds(p.KeptSpecs()),
	}
	grace, _ := p.GraceOfHours()
	out.HoursGracePercent = proto.Int32(grace)
	if p.UpdatedAt != 0 {
		out.UpdatedAt = call.Time(p.UpdatedAt)
	}
	if operator {
		out.UpdatedBy = p.UpdatedBy
	}
	return out
}
