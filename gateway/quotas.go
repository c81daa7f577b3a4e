package gateway

import (
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// ofTenant refuses requests about another tenant unless the caller is an operator.
func ofTenant(x *rest.Request, tenant, what string) error {
	if tenant == "" || tenant == x.Caller.Tenant || x.Caller.May(auth.PermissionOperator) {
		return nil
	}
	return &rest.Problem{HTTP: http.StatusForbidden, Code: "AUTHZ_PERMISSION_DENIED", Message: what + " of another tenant needs the permission " + auth.PermissionOperator}
}

// tenantID returns the tenant in the path; "-" stands for the caller's own.
func tenantID(x *rest.Request) string {
	if named := x.ID(); named != "-" {
		return named
	}
	return x.Caller.Tenant
}

func (s *server) getQuota(x *rest.Request) error {
	if err := ofTenant(x, tenantID(x), "the quota"); err != nil {
		return err
	}
	return rest.Unary(x, &v1.GetQuotaRequest{TenantId: tenantID(x)}, s.quotas.GetQuota,
		func(r *v1.GetQuotaResponse) proto.Message { return r.GetQuota() })
}

func (s *server) putQuota(x *rest.Request) error {
	if err := ofTenant(x, tenantID(x), "the quota"); err != nil {
		return err
	}
	quota := &v1.Quota{}
	if _, err := x.Decode(quota, true, quotaFigures...); err != nil {
		return err
	}
	quota.TenantId = tenantID(x)
	return rest.Unary(x, &v1.PutQuotaRequest{Quota: quota}, s.quotas.PutQuota,
		func(r *v1.PutQuotaResponse) proto.Message { return r.GetQuota() })
}

// quotaFigures are the read-only fields of a quota.
var quotaFigures = []string{"tenant_id", "gpus", "running_jobs", "jobs", "updated_by", "updated_at", "gpus_by_type", "gpu_hours", "gpu_hours_reset_at", "submissions", "spec_mb"}

func (s *server) deleteQuota(x *rest.Request) error {
	if err := ofTenant(x, tenantID(x), "the quota"); err != nil {
		return err
	}
	request := &v1.DeleteQuotaRequest{TenantId: tenantID(x)}
	return rest.Unary(x, request, s.quotas.DeleteQuota,
		func(*v1.DeleteQuotaResponse) proto.Message { return request })
}

func (s *server) listAudit(x *rest.Request) error {
	request, faults := wire.ListAuditRecords(x.R.URL.Query(), time.Now())
	if err := ofTenant(x, request.TenantId, "the audit log"); err != nil {
		return err
	}
	if len(faults) > 0 {
		return rest.InvalidBody(faults)
	}
	return rest.Unary(x, request, s.audit.ListAuditRecords, rest.Whole)
}
