package coordinator

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// The calls of tenants' administrators about quotas, the audit log, and nodes.

// theirs returns the tenant that a call names: the party's own, or the other one, which must be answered like an
// unknown tenant.
func (p *party) theirs(call partyCall) string {
	switch {
	case !call.foreign:
		return p.tenant()
	case p.other == nil:
		return "nobody-tenant"
	}
	return p.other.tenant()
}

func (p *party) administer(call partyCall, with []grpc.CallOption) (proto.Message, error) {
	quotas, nodes, ctx := p.c.quotas("c1"), p.clusterService(), p.ctx("")
	switch call.what {
	case "quota":
		return quotas.GetQuota(ctx, &v1.GetQuotaRequest{TenantId: p.theirs(call)}, with...)
	case "quotas":
		return quotas.ListQuotas(ctx, &v1.ListQuotasRequest{}, with...)
	case "put quota": // The quota refuses jobs, but lets none wait, because the start of a waiting job depends on all tenants.
		return quotas.PutQuota(ctx, &v1.PutQuotaRequest{Quota: &v1.Quota{
			TenantId: p.theirs(call), MaxGpus: proto.Int32(1000), MaxJobs: proto.Int32(int32(4 + call.n)),
		}}, with...)
	case "delete quota":
		return quotas.DeleteQuota(ctx, &v1.DeleteQuotaRequest{TenantId: p.theirs(call)}, with...)
	case "audit":
		return p.c.auditLog("c1").ListAuditRecords(ctx, &v1.ListAuditRecordsRequest{TenantId: p.theirs(call), PageSize: 1000}, with...)
	case "audit of an object": // Only objects of its own: a cluster without another tenant has no such objects.
		return p.c.auditLog("c1").ListAuditRecords(ctx, &v1.ListAuditRecordsRequest{Object: p.pick("job", partyCall{n: call.n}), PageSize: 1000}, with...)
	case "enable":
		return nodes.EnableNode(ctx, &v1.EnableNodeRequest{NodeId: "n1"}, with...)
	}
	return nodes.ForgetNode(ctx, &v1.ForgetNodeRequest{NodeId: "n1"}, with...) // Refused, because the node is in session.
}
