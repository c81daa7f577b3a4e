package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm/access"
)

// denials returns the denied calls in a tenant's part of the audit log, oldest first; * stands for all tenants.
func (c *cluster) denials(at, tenant string) []string {
	c.t.Helper()
	req := &v1.ListAuditRecordsRequest{Action: "access", PageSize: 1000}
	ctx := c.ctx(tenant, "")
	if tenant == "*" {
		ctx, req.TenantId = c.operator("ops"), "*"
	}
	reply, err := c.auditLog(at).ListAuditRecords(ctx, req)
	require.NoError(c.t, err)
	var out []string
	for _, r := range slices.Backward(reply.GetRecords()) {
		out = append(out, fmt.Sprintf("%s/%s %s %s %s: %s", r.GetTenantId(), r.GetUserId(), r.GetAction(), r.GetObject(), r.GetOutcome(), r.GetMessage()))
	}
	return out
}

// Calls that coordinators deny are in the audit log of all replicas, a flood of them in a few records. Each tenant sees
// only its own part.
func TestDenials_ofCoordinatorsAreInTheAuditLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, func(config *Config) { config.Timers.Denials = 100 * time.Millisecond })
		leader, follower := c.leader(), c.follower()
		stranger := metadata.NewOutgoingContext(t.Context(), metadata.Pairs(status.KeySecret, "guess", status.KeyTenant, "t1", status.KeyUser, "forged", status.KeyForwarded, "1"))
		const flood = 500
		for range flood {
			_, err := c.nodes(follower).ListNodes(stranger, &v1.ListNodesRequest{})
			requireCode(t, codes.Unauthenticated, err)
		}
		// One call at the leader itself, and one that a follower forwarded to it: each is recorded once.
		_, err := c.launchers(leader).PutLauncher(c.ctx("t1", "", status.KeyUser, "ann"), &v1.PutLauncherRequest{})
		requireCode(t, codes.PermissionDenied, err)
		_, err = c.launchers(follower).DeleteLauncher(c.ctx("t2", "", status.KeyUser, "bob"), &v1.DeleteLauncherRequest{Framework: "FSDP"})
		requireCode(t, codes.PermissionDenied, err)

		c.eventually("the denials are not in the audit log", func() bool {
			text := strings.Join(c.denials(leader, "*"), "\n")
			return strings.Contains(text, "PutLauncher") && strings.Contains(text, "DeleteLauncher") && strings.Contains(text, "ListNodes")
		})
		c.eventually("not all of the flood is counted", func() bool { return counted(c.denials(leader, "*"), "ListNodes") == flood })
		for _, id := range c.ids {
			t1, t2 := c.denials(id, "t1"), c.denials(id, "t2")
			require.Len(t, t1, 1, "the forged tenant is not believed, and the leader told it once")
			require.Len(t, t2, 1)
			require.Equal(t, "t1/ann access.deny PutLauncher PERMISSION_DENIED: NOT_FOR_THIS_CALLER, once, by "+leader+", from 10.0.2.1", t1[0])
			require.Equal(t, "t2/bob access.deny DeleteLauncher PERMISSION_DENIED: NOT_FOR_THIS_CALLER, once, by "+leader, t2[0], "it does not know from where the follower was asked")
			for _, line := range c.denials(id, "*") {
				if strings.Contains(line, "ListNodes") {
					require.True(t, strings.HasPrefix(line, "/ access.deny ListNodes UNAUTHENTICATED: API_SECRET_INVALID, "), line)
					require.Contains(t, line, ", by "+follower+", from 10.0.2.1")
				}
			}
		}
		require.Less(t, len(c.denials(leader, "*")), flood, "many are one record")
	})
}

// With a short interval, recording still gets the time that a commit needs: denials whose recording is cut off are
// lost.
func TestDenials_aShortPaceLosesNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, func(config *Config) { config.Timers.Denials = time.Microsecond })
		const calls = 20
		for range calls {
			_, err := c.launchers("c1").PutLauncher(c.ctx("t1", ""), &v1.PutLauncherRequest{})
			requireCode(t, codes.PermissionDenied, err)
		}
		c.eventually("not all are told", func() bool { return counted(c.denials("c1", "t1"), "PutLauncher") == calls })
	})
}

// counted adds up the counts of the records about a call.
func counted(records []string, about string) int {
	sum := 0
	for _, r := range records {
		if !strings.Contains(r, about) {
			continue
		}
		_, rest, _ := strings.Cut(r, ", ")
		times := 1
		_, _ = fmt.Sscanf(rest, "%d times", &times)
		sum += times
	}
	return sum
}

func TestRecordDenials_takesWhatGatewaysTell(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		good := func() *v1.Denial {
			return &v1.Denial{TenantId: "acme", UserId: "ann", Outcome: "PERMISSION_DENIED", Reason: "AUTHZ_PERMISSION_DENIED", Object: "PUT /queues/{name}", Address: "10.0.0.1", Count: 9, DeniedBy: "gateway", RequestId: "req_1"}
		}
		none := c.ctx("", "")
		for name, denials := range map[string][]*v1.Denial{
			"nothing":         nil,
			"too many":        slices.Repeat([]*v1.Denial{good()}, access.MaxDenials+1),
			"another outcome": {{Outcome: "NOT_FOUND", Count: 1}},
			"no outcome":      {{Count: 1}},
			"no count":        {{Outcome: "UNAUTHENTICATED"}},
			"less than none":  {{Outcome: "UNAUTHENTICATED", Count: -1}},
		} {
			_, err := c.auditLog(at).RecordDenials(none, &v1.RecordDenialsRequest{Denials: denials})
			require.Error(t, err, name)
			requireCode(t, codes.InvalidArgument, err)
		}
		huge := good()
		huge.TenantId, huge.UserId, huge.Reason = "x"+strings.Repeat("ä", 1000), strings.Repeat("u", 100_000), strings.Repeat("r", 100_000)
		reply, err := c.auditLog(at).RecordDenials(none, &v1.RecordDenialsRequest{Denials: append(slices.Repeat([]*v1.Denial{good()}, access.MaxDenials-1), huge)})
		require.NoError(t, err)
		require.EqualValues(t, access.MaxDenials, reply.GetRecorded())
		require.Equal(t, "acme/ann access.deny PUT /queues/{name} PERMISSION_DENIED: AUTHZ_PERMISSION_DENIED, 9 times within a second, by gateway, from 10.0.0.1", c.denials(at, "acme")[0])
		require.Len(t, c.denials(at, "*"), access.MaxDenials, "also the one whose text was cut in the middle of a letter")

		_, err = c.auditLog(at).RecordDenials(context.Background(), &v1.RecordDenialsRequest{Denials: []*v1.Denial{good()}})
		requireCode(t, codes.Unauthenticated, err)
	})
}

// An agent reports the job of a denied call. The submitter of the job comes from the state, whatever the agent reports.
func TestRecordDenials_ofAJobAreItsSubmitters(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		resp, err := c.jobs("c1").SubmitJob(c.ctx("acme", "", status.KeyUser, "ann"), patient(sleeper(2, 0)))
		require.NoError(t, err)
		job := resp.GetJobId()
		_, err = c.auditLog(c.follower()).RecordDenials(c.ctx("", ""), &v1.RecordDenialsRequest{Denials: []*v1.Denial{
			{TenantId: "other", UserId: "eve", JobId: job, Outcome: "PERMISSION_DENIED", Reason: "PRIVATE_DIRECTORY", Object: "checkpoint of " + job, Address: "n1", Count: 2, DeniedBy: "agent n1"},
			{TenantId: "other", UserId: "eve", JobId: "job_zzzzz", Outcome: "PERMISSION_DENIED", Reason: "PRIVATE_DIRECTORY", Object: "gone", Count: 1, DeniedBy: "agent n1"},
		}})
		require.NoError(t, err)
		require.Equal(t, []string{"acme/ann access.deny checkpoint of " + job + " PERMISSION_DENIED: PRIVATE_DIRECTORY, 2 times within a second, by agent n1, from n1"}, c.denials(c.follower(), "acme"))
		require.Empty(t, c.denials(c.follower(), "other"))
	})
}

// The bound of the audit log is a setting of the leader. A leader without the setting leaves the bound unchanged.
func TestAuditRecords_areBoundedByASetting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, func(config *Config) {
			if config.ID != "c3" {
				config.Limits.AuditRecords = 1000
			}
		})
		c.lead("c1")
		deny := &v1.RecordDenialsRequest{Denials: slices.Repeat([]*v1.Denial{{Outcome: "UNAUTHENTICATED", Count: 1}}, 200)}
		for range 7 {
			_, err := c.auditLog("c1").RecordDenials(c.ctx("", ""), deny)
			require.NoError(t, err)
		}
		records := func(at string) (n int, dropped uint64) {
			req := &v1.ListAuditRecordsRequest{Action: "access", TenantId: "*", PageSize: 1000}
			for {
				reply, err := c.auditLog(at).ListAuditRecords(c.operator("ops"), req)
				require.NoError(t, err)
				n += len(reply.GetRecords())
				if req.PageToken = reply.GetNextPageToken(); req.PageToken == "" {
					return n, reply.GetDroppedBeforeIndex()
				}
			}
		}
		c.eventually("the bound is not kept", func() bool { n, dropped := records("c1"); return n == 1000 && dropped > 0 })
		c.lead("c3")
		_, err := c.auditLog("c3").RecordDenials(c.ctx("", ""), deny)
		require.NoError(t, err)
		n, _ := records("c2")
		require.Equal(t, 1000, n, "who is not told otherwise leaves it as it is")

		require.ErrorContains(t, Config{Limits: Limits{AuditRecords: 999}}.Validate(), "audit_records 999: it must be 1000 to 10000000")
		require.ErrorContains(t, Config{Limits: Limits{AuditRecords: -1}}.Validate(), "audit_records")
	})
}
