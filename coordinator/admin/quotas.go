package admin

import (
	"context"
	"math"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work/bounds"
	"github.com/mindcoordinator/mind/fsm/work/budgets"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
)

// GetQuota shows the limits and the usage of a tenant. A tenant without a quota has the bounds of package bounds alone.
func (s *Service) GetQuota(ctx context.Context, req *v1.GetQuotaRequest) (*v1.GetQuotaResponse, error) {
	tenant, err := call.Of(ctx).TenantNamed(req.GetTenantId())
	if err != nil {
		return nil, err
	}
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	return &v1.GetQuotaResponse{Quota: quotaView(v, tenant, call.Of(ctx).Operator)}, nil
}

// ListQuotas lists the quotas of all tenants for operators, and only the caller's own for others.
func (s *Service) ListQuotas(ctx context.Context, _ *v1.ListQuotasRequest) (*v1.ListQuotasResponse, error) {
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	c := call.Of(ctx)
	out := &v1.ListQuotasResponse{}
	if !c.Operator {
		out.Quotas = append(out.Quotas, quotaView(v, c.Tenant, false))
		return out, nil
	}
	for q := range v.Quotas() {
		out.Quotas = append(out.Quotas, quotaView(v, q.Tenant, true))
	}
	return out, nil
}

// PutQuota replaces the quota of a tenant. The gateway checks the permission, as with queues and nodes.
func (s *Service) PutQuota(ctx context.Context, req *v1.PutQuotaRequest) (*v1.PutQuotaResponse, error) {
	c, q := call.Of(ctx), req.GetQuota()
	if q == nil {
		return nil, call.Bad("quota", "is missing")
	}
	tenant, err := c.TenantNamed(q.GetTenantId())
	if err != nil {
		return nil, err
	}
	for field, limit := range map[string]*int32{
		"max_gpus": q.MaxGpus, "max_running_jobs": q.MaxRunningJobs, "max_jobs": q.MaxJobs, "max_gpu_hours": q.MaxGpuHours,
	} {
		if limit != nil && *limit < 0 {
			return nil, call.Bad(field, "must be 0 or more; omit it for no limit")
		}
	}
	for field, bound := range map[string]*int32{"max_submissions": q.MaxSubmissions, "max_spec_mb": q.MaxSpecMb} {
		if bound != nil && *bound < bounds.None {
			return nil, call.Bad(field, "must be 0 or more, or %d for no bound; omit it for the default", bounds.None)
		}
	}
	byType, err := s.typeLimits(q.GetMaxGpusByType())
	if err != nil {
		return nil, err
	}
	result, err := replica.Propose[queueverbs.QuotaResult](ctx, s.replica, queueverbs.PutQuota{
		Tenant: tenant, MaxGPUs: q.MaxGpus, MaxRunning: q.MaxRunningJobs, MaxJobs: q.MaxJobs, By: c.User, Actor: c.Actor(),
		MaxByType: byType, MaxGPUHours: q.MaxGpuHours, MaxSubmissions: q.MaxSubmissions, MaxSpecMB: q.MaxSpecMb,
	})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return &v1.PutQuotaResponse{Quota: quotaView(s.replica.View(), tenant, c.Operator)}, nil
}

// DeleteQuota removes all limits of a tenant.
func (s *Service) DeleteQuota(ctx context.Context, req *v1.DeleteQuotaRequest) (*v1.DeleteQuotaResponse, error) {
	c := call.Of(ctx)
	tenant, err := c.TenantNamed(req.GetTenantId())
	if err != nil {
		return nil, err
	}
	result, err := replica.Propose[queueverbs.QuotaResult](ctx, s.replica, queueverbs.DeleteQuota{Tenant: tenant, Actor: c.Actor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, call.Refused(result.Refusal)
	}
	return &v1.DeleteQuotaResponse{}, nil
}

// quotaView returns a quota as callers see it. The user who set it may be of another tenant, so only operators see this
// user.
func quotaView(v *fsm.View, tenant string, operator bool) *v1.Quota {
	u := v.Usage(tenant)
	out := &v1.Quota{
		TenantId: tenant, Gpus: float64(u.GPUMilli) / 1000,
		RunningJobs: int32(min(u.Running, math.MaxInt32)), Jobs: int32(min(u.Unfinished, math.MaxInt32)),
		Submissions: int32(min(u.Submissions, math.MaxInt32)), SpecMb: math.Round(1e4*float64(u.SpecBytes)/(1<<20)) / 1e4,
	}
	v.TypesHeld(tenant, func(name string, milli int) {
		if out.GpusByType == nil {
			out.GpusByType = map[string]float64{}
		}
		out.GpusByType[name] = float64(milli) / 1000
	})
	// The time of the state stands still where nothing happens; jobs go on.
	now := max(v.Now(), time.Now().UnixNano())
	_, next := budgets.MonthOf(now / 1e6)
	out.GpuHours = math.Round(100*float64(v.Budget(tenant).SpentBy(now))/float64(budgets.Hour)) / 100
	if q, ok := v.Quota(tenant); ok {
		out.MaxGpusByType, out.MaxGpuHours = typesOf(q.MaxByType), q.MaxGPUHours
		if q.MaxGPUHours != nil {
			out.GpuHoursResetAt = call.Time(next * 1e6)
		}
		out.MaxSubmissions, out.MaxSpecMb = q.MaxSubmissions, q.MaxSpecMB
		out.MaxGpus, out.MaxRunningJobs, out.MaxJobs = q.MaxGPUs, q.MaxRunning, q.MaxJobs
		out.UpdatedAt = call.Time(q.UpdatedAt)
		if operator {
			out.UpdatedBy = q.UpdatedBy
		}
	}
	return out
}
