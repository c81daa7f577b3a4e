package coordinator

import (
	"context"
	"math"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// theirTenant is the tenant that a call about quotas or the audit log is about: the caller's own, or for operators any.
// The gateway vouches for operators; without its word nobody learns whether another tenant has a quota.
func (c *call) theirTenant(named string) (string, error) {
	switch {
	case named == "" || named == c.tenant:
		return c.tenant, nil
	case !c.operator:
		return "", &failure{codes.PermissionDenied, "this is about another tenant than the call is made for: only operators of the cluster may look there", ""}
	case len(named) > maxIdentity:
		return "", bad("tenant_id", "takes at most %d bytes", maxIdentity)
	}
	return named, nil
}

// GetQuota shows what a tenant may have, and what it has. A tenant without a quota may have anything.
func (s *server) GetQuota(ctx context.Context, req *v1.GetQuotaRequest) (*v1.GetQuotaResponse, error) {
	tenant, err := callOf(ctx).theirTenant(req.GetTenantId())
	if err != nil {
		return nil, err
	}
	v, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	return &v1.GetQuotaResponse{Quota: quotaView(v, tenant, callOf(ctx).operator)}, nil
}

// ListQuotas lists the quotas of all tenants for operators, and for others their own.
func (s *server) ListQuotas(ctx context.Context, _ *v1.ListQuotasRequest) (*v1.ListQuotasResponse, error) {
	v, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	c := callOf(ctx)
	out := &v1.ListQuotasResponse{}
	if !c.operator {
		out.Quotas = append(out.Quotas, quotaView(v, c.tenant, false))
		return out, nil
	}
	for q := range v.Quotas() {
		out.Quotas = append(out.Quotas, quotaView(v, q.Tenant, true))
	}
	return out, nil
}

// PutQuota replaces the quota of a tenant. Who may set it is for the gateway to say, as with queues and nodes.
func (s *server) PutQuota(ctx context.Context, req *v1.PutQuotaRequest) (*v1.PutQuotaResponse, error) {
	c, q := callOf(ctx), req.GetQuota()
	if q == nil {
		return nil, bad("quota", "is missing")
	}
	tenant, err := c.theirTenant(q.GetTenantId())
	if err != nil {
		return nil, err
	}
	for field, limit := range map[string]*int32{
		"max_gpus": q.MaxGpus, "max_running_jobs": q.MaxRunningJobs, "max_jobs": q.MaxJobs,
	} {
		if limit != nil && *limit < 0 {
			return nil, bad(field, "must be 0 or more; leave it out for no limit")
		}
	}
	result, err := propose[fsm.QuotaResult](ctx, s, fsm.PutQuota{
		Tenant: tenant, MaxGPUs: q.MaxGpus, MaxRunning: q.MaxRunningJobs, MaxJobs: q.MaxJobs, By: c.user, Actor: c.actor(),
	})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, result.Refusal
	}
	return &v1.PutQuotaResponse{Quota: quotaView(s.machine.View(), tenant, c.operator)}, nil
}

// DeleteQuota takes every limit of a tenant away.
func (s *server) DeleteQuota(ctx context.Context, req *v1.DeleteQuotaRequest) (*v1.DeleteQuotaResponse, error) {
	c := callOf(ctx)
	tenant, err := c.theirTenant(req.GetTenantId())
	if err != nil {
		return nil, err
	}
	result, err := propose[fsm.QuotaResult](ctx, s, fsm.DeleteQuota{Tenant: tenant, Actor: c.actor()})
	switch {
	case err != nil:
		return nil, err
	case result.Refusal != nil:
		return nil, result.Refusal
	}
	return &v1.DeleteQuotaResponse{}, nil
}

// quotaView shows a quota. Who set it may be of another tenant, so only operators are told.
func quotaView(v *fsm.View, tenant string, operator bool) *v1.Quota {
	u := v.Usage(tenant)
	out := &v1.Quota{
		TenantId: tenant, Gpus: float64(u.GPUMilli) / 1000,
		RunningJobs: int32(min(u.Running, math.MaxInt32)), Jobs: int32(min(u.Unfinished, math.MaxInt32)),
	}
	if q, ok := v.Quota(tenant); ok {
		out.MaxGpus, out.MaxRunningJobs, out.MaxJobs = q.MaxGPUs, q.MaxRunning, q.MaxJobs
		out.UpdatedAt = timestamp(q.UpdatedAt)
		if operator {
			out.UpdatedBy = q.UpdatedBy
		}
	}
	return out
}
