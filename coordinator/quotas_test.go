package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func (c *cluster) quotas(id string) v1.QuotaServiceClient {
	return v1.NewQuotaServiceClient(c.members[id].conn)
}

func (c *cluster) auditLog(id string) v1.AuditServiceClient {
	return v1.NewAuditServiceClient(c.members[id].conn)
}

// A tenant without a quota has bounds. Beyond them a submit is refused through every coordinator, each job of a batch for itself,
// and a repeat of what was accepted is answered.
func TestCluster_boundsOfTenants(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		put := func(q *v1.Quota) (*v1.PutQuotaResponse, error) {
			return c.quotas(at).PutQuota(c.ctx("t1", ""), &v1.PutQuotaRequest{Quota: q})
		}
		_, err := put(&v1.Quota{MaxSubmissions: proto.Int32(-2)})
		requireCode(t, codes.InvalidArgument, err)
		require.ErrorContains(t, err, "max_submissions")
		set, err := put(&v1.Quota{MaxSubmissions: proto.Int32(1)})
		require.NoError(t, err)
		require.EqualValues(t, 1, set.GetQuota().GetMaxSubmissions())
		require.Nil(t, set.GetQuota().MaxSpecMb, "the default")

		long := sleeper(1, 0)
		long.CommandConfig.Environment = map[string]string{"LONG": strings.Repeat("x", 2000)}
		first, err := c.jobs(at).SubmitJob(c.ctx("t1", "once"), long)
		require.NoError(t, err)
		again, err := c.jobs(at).SubmitJob(c.ctx("t1", "once"), long)
		require.NoError(t, err)
		require.Equal(t, first.GetJobId(), again.GetJobId())
		var trailer metadata.MD
		_, err = c.jobs(at).SubmitJob(c.ctx("t1", ""), sleeper(1, 0), grpc.Trailer(&trailer))
		requireCode(t, codes.ResourceExhausted, err)
		require.ErrorContains(t, err, "tenant bound: 1 of 1 unfinished submission")
		require.Equal(t, []string{status.QuotaExceeded}, trailer[status.KeyOutcome])
		batch, err := c.jobs(at).SubmitJobs(c.ctx("t1", ""), &v1.SubmitJobsRequest{Jobs: []*v1.SubmitJobRequest{sleeper(1, 0), sleeper(1, 0)}})
		require.NoError(t, err)
		for _, r := range batch.GetResults() {
			require.Equal(t, status.QuotaExceeded, r.GetReason())
		}
		set, err = put(&v1.Quota{MaxSubmissions: proto.Int32(-1)})
		require.NoError(t, err)
		require.EqualValues(t, 1, set.GetQuota().GetSubmissions())
		require.Positive(t, set.GetQuota().GetSpecMb())
		_, err = c.jobs(at).SubmitJob(c.ctx("t1", ""), sleeper(1, 0))
		require.NoError(t, err)
	})
}

// Jobs of a tenant at its quota wait and show why, while those of others start. A raised quota, and the end of a job,
// are each enough to start a waiting job.
func TestCluster_quotas(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		agent := c.agent("n1", 8)
		at := c.follower()
		set, err := c.quotas(at).PutQuota(c.ctx("t1", "", status.KeyUser, "root"), &v1.PutQuotaRequest{Quota: &v1.Quota{MaxGpus: proto.Int32(1), MaxJobs: proto.Int32(3)}})
		require.NoError(t, err)
		require.Equal(t, "t1", set.GetQuota().GetTenantId())
		require.EqualValues(t, 1, set.GetQuota().GetMaxGpus())
		require.Nil(t, set.GetQuota().MaxRunningJobs, "no limit")
		require.Empty(t, set.GetQuota().GetUpdatedBy(), "who set it may be of another tenant")

		first, second := c.submit(at, sleeper(1, 0)), c.submit(at, sleeper(1, 0))
		c.eventually("the first job never runs", func() bool { return agent.runs(first) })
		state := func(tenant, id string) *v1.Job {
			reply, err := c.jobs(at).GetJob(c.ctx(tenant, ""), &v1.GetJobRequest{JobId: id})
			require.NoError(t, err)
			return reply.GetJob()
		}
		c.eventually("the second job is not told why it waits", func() bool {
			return state("t1", second).GetReason() == "tenant quota: 1 of 1 GPU in use"
		})
		other, err := c.jobs(at).SubmitJob(c.ctx("t2", ""), sleeper(1, 0))
		require.NoError(t, err)
		c.eventually("another tenant is held back", func() bool { return agent.runs(other.GetJobId()) })

		var trailer metadata.MD
		c.submit(at, sleeper(1, 0))
		_, err = c.jobs(at).SubmitJob(c.ctx("t1", ""), sleeper(1, 0), grpc.Trailer(&trailer))
		requireCode(t, codes.ResourceExhausted, err)
		require.Equal(t, []string{status.QuotaExceeded}, trailer[status.KeyOutcome], "told through a follower")
		batch, err := c.jobs(at).SubmitJobs(c.ctx("t1", ""), &v1.SubmitJobsRequest{Jobs: []*v1.SubmitJobRequest{sleeper(1, 0)}})
		require.NoError(t, err)
		require.Equal(t, status.QuotaExceeded, batch.GetResults()[0].GetReason())

		_, err = c.quotas(at).PutQuota(c.ctx("t1", ""), &v1.PutQuotaRequest{Quota: &v1.Quota{MaxGpus: proto.Int32(2)}})
		require.NoError(t, err)
		c.eventually("a raised quota starts nothing", func() bool { return agent.runs(second) })
		got, err := c.quotas(at).GetQuota(c.ctx("t1", ""), &v1.GetQuotaRequest{})
		require.NoError(t, err)
		require.EqualValues(t, 2, got.GetQuota().GetGpus())
		require.EqualValues(t, 2, got.GetQuota().GetRunningJobs())
		require.EqualValues(t, 3, got.GetQuota().GetJobs())
		agent.end(first, 0)
		c.eventually("what ended makes no room", func() bool {
			reply, err := c.quotas(at).GetQuota(c.ctx("t1", ""), &v1.GetQuotaRequest{})
			require.NoError(t, err)
			return reply.GetQuota().GetJobs() == 2 && reply.GetQuota().GetRunningJobs() == 2
		})
		_, err = c.quotas(at).DeleteQuota(c.ctx("t1", ""), &v1.DeleteQuotaRequest{})
		require.NoError(t, err)
		_, err = c.quotas(at).DeleteQuota(c.ctx("t1", ""), &v1.DeleteQuotaRequest{})
		requireCode(t, codes.NotFound, err)
		_, err = c.quotas(at).PutQuota(c.ctx("t1", ""), &v1.PutQuotaRequest{Quota: &v1.Quota{MaxGpus: proto.Int32(-1)}})
		requireCode(t, codes.InvalidArgument, err)
		_, err = c.quotas(at).PutQuota(c.ctx("t1", ""), &v1.PutQuotaRequest{})
		requireCode(t, codes.InvalidArgument, err)
	})
}

// Only a tenant itself and operators see its quota and its audit records.
func TestTenancy_quotasAndAuditAreTheTenantsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		_, err := c.quotas("c1").PutQuota(c.ctx("t1", "", status.KeyUser, "olga"), &v1.PutQuotaRequest{Quota: &v1.Quota{MaxGpus: proto.Int32(3)}})
		require.NoError(t, err)
		c.submit("c1", sleeper(1, 0))
		for _, tenant := range []string{"t1", "nobody"} { // An existing tenant gets the same answer as an unknown one.
			_, err = c.quotas("c1").GetQuota(c.ctx("t2", ""), &v1.GetQuotaRequest{TenantId: tenant})
			requireCode(t, codes.PermissionDenied, err)
			_, err = c.quotas("c1").PutQuota(c.ctx("t2", ""), &v1.PutQuotaRequest{Quota: &v1.Quota{TenantId: tenant}})
			requireCode(t, codes.PermissionDenied, err)
			_, err = c.quotas("c1").DeleteQuota(c.ctx("t2", ""), &v1.DeleteQuotaRequest{TenantId: tenant})
			requireCode(t, codes.PermissionDenied, err)
			_, err = c.auditLog("c1").ListAuditRecords(c.ctx("t2", ""), &v1.ListAuditRecordsRequest{TenantId: tenant})
			requireCode(t, codes.PermissionDenied, err)
		}
		_, err = c.auditLog("c1").ListAuditRecords(c.ctx("t2", ""), &v1.ListAuditRecordsRequest{TenantId: "*"})
		requireCode(t, codes.PermissionDenied, err)
		mine, err := c.quotas("c1").ListQuotas(c.ctx("t2", ""), &v1.ListQuotasRequest{})
		require.NoError(t, err)
		require.Len(t, mine.GetQuotas(), 1)
		require.True(t, proto.Equal(&v1.Quota{TenantId: "t2"}, mine.GetQuotas()[0]), "%v", mine)
		records, err := c.auditLog("c1").ListAuditRecords(c.ctx("t2", ""), &v1.ListAuditRecordsRequest{})
		require.NoError(t, err)
		require.Empty(t, records.GetRecords())
		for _, named := range []string{"", "*"} {
			records, err = c.auditLog("c1").ListAuditRecords(c.ctx("*", ""), &v1.ListAuditRecordsRequest{TenantId: named})
			require.NoError(t, err)
			require.Empty(t, records.GetRecords(), "a tenant may be called anything")
		}
		operator := c.ctx("ops", "", status.KeyOperator, "1")
		all, err := c.quotas("c1").ListQuotas(operator, &v1.ListQuotasRequest{})
		require.NoError(t, err)
		require.Len(t, all.GetQuotas(), 1)
		require.EqualValues(t, 3, all.GetQuotas()[0].GetMaxGpus())
		require.Equal(t, "olga", all.GetQuotas()[0].GetUpdatedBy())
		records, err = c.auditLog("c1").ListAuditRecords(operator, &v1.ListAuditRecordsRequest{TenantId: "*", Action: "quota"})
		require.NoError(t, err)
		require.Len(t, records.GetRecords(), 1)
		_, err = c.quotas("c1").PutQuota(operator, &v1.PutQuotaRequest{Quota: &v1.Quota{TenantId: "t2", MaxJobs: proto.Int32(0)}})
		require.NoError(t, err)
		_, err = c.jobs("c1").SubmitJob(c.ctx("t2", ""), sleeper(1, 0))
		requireCode(t, codes.ResourceExhausted, err)
	})
}

// The audit log has the user, the token and the request of each action, also through followers and in batches, page by
// page.
func TestCluster_audit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		ctx := func(request string) []string {
			return []string{status.KeyUser, "ann", status.KeyToken, "tok_7", status.KeyRequestID, request}
		}
		one, err := c.jobs(at).SubmitJob(c.ctx("t1", "", ctx("r1")...), sleeper(1, 0))
		require.NoError(t, err)
		_, err = c.jobs(at).SubmitJobs(c.ctx("t1", "", ctx("r2")...), &v1.SubmitJobsRequest{
			Jobs: []*v1.SubmitJobRequest{sleeper(1, 0), sleeper(1, 0)}, RequestIds: []string{"r2a", "r2b"},
		})
		require.NoError(t, err)
		_, err = c.jobs(at).CancelJob(c.ctx("t1", "", ctx("r3")...), &v1.CancelJobRequest{JobId: one.GetJobId(), Reason: "enough"})
		require.NoError(t, err)
		_, err = c.nodes(at).DeleteQueue(c.ctx("t1", "", ctx("r4")...), &v1.DeleteQueueRequest{Name: "nope"})
		requireCode(t, codes.NotFound, err)
		list := func(req *v1.ListAuditRecordsRequest) *v1.ListAuditRecordsResponse {
			reply, err := c.auditLog(at).ListAuditRecords(c.ctx("t1", ""), req)
			require.NoError(t, err)
			return reply
		}
		var told []string
		for page := (&v1.ListAuditRecordsResponse{NextPageToken: " "}); page.GetNextPageToken() != ""; {
			page = list(&v1.ListAuditRecordsRequest{PageSize: 2, PageToken: trimmed(page.GetNextPageToken())})
			for _, r := range page.GetRecords() {
				require.Equal(t, "ann", r.GetUserId())
				require.Equal(t, "tok_7", r.GetTokenId())
				told = append(told, fmt.Sprintf("%s %s %s %s", r.GetRequestId(), r.GetAction(), r.GetOutcome(), r.GetMessage()))
			}
		}
		require.Equal(t, []string{
			`r4 queue.delete NOT_FOUND there is no queue "nope"`, "r3 job.cancel OK enough",
			"r2b job.submit OK ", "r2a job.submit OK ", "r1 job.submit OK ",
		}, told)
		require.Len(t, list(&v1.ListAuditRecordsRequest{Object: one.GetJobId()}).GetRecords(), 2)
		require.Len(t, list(&v1.ListAuditRecordsRequest{Action: "job", Outcome: "OK", UserId: "ann"}).GetRecords(), 4)
		require.Empty(t, list(&v1.ListAuditRecordsRequest{UserId: "bob"}).GetRecords())
		since := list(&v1.ListAuditRecordsRequest{PageSize: 1}).GetRecords()[0].GetTime()
		for _, r := range list(&v1.ListAuditRecordsRequest{Since: since}).GetRecords() {
			require.False(t, r.GetTime().AsTime().Before(since.AsTime()))
		}
		for _, r := range list(&v1.ListAuditRecordsRequest{Until: since}).GetRecords() {
			require.True(t, r.GetTime().AsTime().Before(since.AsTime()))
		}
		for name, req := range map[string]*v1.ListAuditRecordsRequest{
			"action": {Action: "job.fly"}, "outcome": {Outcome: "WELL"}, "page_size": {PageSize: 1001}, "page_token": {PageToken: "x"},
		} {
			_, err := c.auditLog(at).ListAuditRecords(c.ctx("t1", ""), req)
			requireCode(t, codes.InvalidArgument, err)
			require.ErrorContains(t, err, name)
		}
	})
}

// trimmed returns a page token; a blank stands for none.
func trimmed(token string) string {
	if token == " " {
		return ""
	}
	return token
}
