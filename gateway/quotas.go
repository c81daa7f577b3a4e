package gateway

import (
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// ofTenant refuses requests about another tenant unless the caller is an operator.
func (x *httpRequest) ofTenant(tenant, what string) error {
	if tenant == "" || tenant == x.caller.Tenant || x.caller.May(auth.PermissionOperator) {
		return nil
	}
	return &problem{http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED", message: what + " of another tenant needs the permission " + auth.PermissionOperator}
}

// tenantID returns the tenant in the path; "-" stands for the caller's own.
func tenantID(x *httpRequest) string {
	if named := id(x); named != "-" {
		return named
	}
	return x.caller.Tenant
}

func getQuota(x *httpRequest) error {
	if err := x.ofTenant(tenantID(x), "the quota"); err != nil {
		return err
	}
	return unary(x, &v1.GetQuotaRequest{TenantId: tenantID(x)}, x.server.quotas.GetQuota,
		func(r *v1.GetQuotaResponse) proto.Message { return r.GetQuota() })
}

func putQuota(x *httpRequest) error {
	if err := x.ofTenant(tenantID(x), "the quota"); err != nil {
		return err
	}
	quota := &v1.Quota{}
	if _, err := x.decode(quota, true, quotaFigures...); err != nil {
		return err
	}
	quota.TenantId = tenantID(x)
	return unary(x, &v1.PutQuotaRequest{Quota: quota}, x.server.quotas.PutQuota,
		func(r *v1.PutQuotaResponse) proto.Message { return r.GetQuota() })
}

// quotaFigures are the read-only fields of a quota.
var quotaFigures = []string{"tenant_id", "gpus", "running_jobs", "jobs", "updated_by", "updated_at", "gpus_by_type", "gpu_hours", "gpu_hours_reset_at", "submissions", "spec_mb"}

func deleteQuota(x *httpRequest) error {
	if err := x.ofTenant(tenantID(x), "the quota"); err != nil {
		return err
	}
	request := &v1.DeleteQuotaRequest{TenantId: tenantID(x)}
	return unary(x, request, x.server.quotas.DeleteQuota,
		func(*v1.DeleteQuotaResponse) proto.Message { return request })
}

func listAudit(x *httpRequest) error {
	request, faults := wire.ListAuditRecords(x.r.URL.Query(), time.Now())
	if err := x.ofTenant(request.TenantId, "the audit log"); err != nil {
		return err
	}
	if len(faults) > 0 {
		return invalidBody(faults)
	}
	return unary(x, request, x.server.audit.ListAuditRecords, whole)
}
