package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func (c *cluster) explain(tenant, id string, whatIf ...string) (*v1.ExplainJobResponse, error) {
	return c.jobs("c1").ExplainJob(c.ctx(tenant, ""), &v1.ExplainJobRequest{JobId: id, WhatIf: whatIf})
}

func suppositions(remedies []*v1.Remedy) (all []string) {
	for _, r := range remedies {
		all = append(all, r.GetAnswer().GetWhatIf()...)
	}
	return all
}

func TestCluster_explainsWithFactsAndRemedies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, promptly)
		c.agent("n1", 2)
		c.agent("n2", 1)
		runs := c.submit("c1", limited("a", "n1", 10))
		c.awaitStatus("c1", runs, v1.JobStatus_TRAINING)
		waits := c.submit("c1", limited("b", "n1", 5))
		c.eventually("it is never considered", func() bool { return c.get("c1", waits).GetStatus() == v1.JobStatus_QUEUED })

		got, err := c.explain("t1", waits)
		require.NoError(t, err)
		require.Len(t, got.GetObstacles(), 1)
		o := got.GetObstacles()[0]
		require.Equal(t, v1.ObstacleKind_NODES, o.GetKind())
		require.Equal(t, got.GetReason(), o.GetMessage())
		found := map[v1.NodeCheck_Value]int32{}
		for _, n := range o.GetNodes() {
			found[n.GetCheck()] = n.GetNodes()
		}
		require.Equal(t, map[v1.NodeCheck_Value]int32{v1.NodeCheck_GPUS_IN_USE: 1, v1.NodeCheck_LABELS: 1}, found)
		require.Equal(t, runs, got.GetStartsAfter())
		require.Equal(t, c.get("c1", waits).GetEstimatedStartAt().AsTime(), got.GetEstimatedStartAt().AsTime())
		require.False(t, got.GetRemediesOmitted())
		require.Contains(t, suppositions(got.GetRemedies()), "cancel="+runs)
		require.NotContains(t, suppositions(got.GetRemedies()), "gpus=1", "the other node has not the label")

		got, err = c.explain("t1", waits, "selector=", "gpus=1")
		require.NoError(t, err)
		require.Empty(t, got.GetRemedies())
		require.True(t, got.GetWhatIf().GetStartsNow())
		require.Equal(t, []string{"n2"}, got.GetWhatIf().GetNodeIds())

		got, err = c.explain("t1", waits, "priority=9")
		require.NoError(t, err)
		require.False(t, got.GetWhatIf().GetStartsNow())
		require.Equal(t, runs, got.GetWhatIf().GetStartsAfter())
		require.NotEmpty(t, got.GetWhatIf().GetReason())
		require.Equal(t, v1.ObstacleKind_NODES, got.GetWhatIf().GetObstacles()[0].GetKind())

		for _, bad := range [][]string{{"speed=9"}, {"queue=none"}, {"cancel=x"}} {
			_, err = c.explain("t1", waits, bad...)
			require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err), "%v: %v", bad, err)
		}
		_, err = c.explain("t1", runs, "gpus=1")
		require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err))
		_, err = c.explain("t2", waits)
		require.Equal(t, codes.NotFound, grpcstatus.Code(err))
	})
}

func TestCluster_explainsQuotasHoldsAndPauses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, promptly)
		c.agent("n1", 4)
		_, err := c.quotas("c1").PutQuota(c.ctx("t1", "", status.KeyUser, "root"), &v1.PutQuotaRequest{Quota: &v1.Quota{MaxGpus: proto.Int32(2)}})
		require.NoError(t, err)
		runs := c.submit("c1", limited("a", "n1", 0))
		c.awaitStatus("c1", runs, v1.JobStatus_TRAINING)
		waits := c.submit("c1", limited("b", "n1", 0))
		c.eventually("it is never considered", func() bool { return c.get("c1", waits).GetStatus() == v1.JobStatus_QUEUED })
		got, err := c.explain("t1", waits)
		require.NoError(t, err)
		require.Len(t, got.GetObstacles(), 1)
		o := got.GetObstacles()[0]
		require.Equal(t, v1.ObstacleKind_QUOTA, o.GetKind())
		require.Equal(t, []float64{2, 2, 2}, []float64{o.GetLimit(), o.GetUsed(), o.GetNeeded()})
		require.Contains(t, suppositions(got.GetRemedies()), "quota.max_gpus=4")
		for _, r := range got.GetRemedies() {
			require.Equal(t, r.GetAnswer().GetWhatIf()[0] == "quota.max_gpus=4", r.GetOperator())
		}

		_, err = c.jobs("c1").PauseJob(c.ctx("t1", ""), &v1.PauseJobRequest{JobId: waits})
		require.NoError(t, err)
		got, err = c.explain("t1", waits)
		require.NoError(t, err)
		require.Equal(t, v1.ObstacleKind_PAUSED, got.GetObstacles()[0].GetKind())
	})
}

// No answer has the id of another tenant's job.
func TestTenancy_explanationsNameNoJobOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, promptly)
		c.agent("n1", 2)
		submit := func(tenant string, req *v1.SubmitJobRequest) string {
			resp, err := c.jobs("c1").SubmitJob(c.ctx(tenant, ""), req)
			require.NoError(t, err)
			return resp.GetJobId()
		}
		runs := submit("t2", limited("a", "n1", 10))
		ahead := limited("b", "n1", 10)
		ahead.SchedulingConfig.Priority = proto.Int32(9)
		next := submit("t2", ahead)
		waits := submit("t1", limited("c", "n1", 0))
		c.eventually("it is never considered", func() bool {
			got, err := c.explain("t1", waits)
			return err == nil && len(got.GetObstacles()) == 1
		})
		for _, suppose := range [][]string{nil, {"priority=10"}, {"gpus=1"}, {"selector="}} {
			got, err := c.explain("t1", waits, suppose...)
			require.NoError(t, err)
			text := got.String()
			require.NotContains(t, text, runs)
			require.NotContains(t, text, next)
			require.Nil(t, got.GetEstimatedStartAt())
			require.Nil(t, got.GetWhatIf().GetEstimatedStartAt())
		}
		_, err := c.explain("t1", waits, "cancel="+runs)
		require.Equal(t, codes.NotFound, grpcstatus.Code(err))
	})
}

// The size of the shortage of a queue's limit would reveal the GPUs that other tenants hold.
func TestTenancy_explanationsDoNotMeasureWhatOthersHold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, promptly)
		c.agent("n1", 8)
		_, err := c.nodes("c1").PutQueue(c.ctx("t1", "", status.KeyOperator, "1"), &v1.PutQueueRequest{Name: "shared", Weight: proto.Int32(1), MaxGpus: 4})
		require.NoError(t, err)
		submit := func(tenant string, gpus int32) string {
			req := sleeper(gpus, 0)
			req.SchedulingConfig = &v1.SchedulingConfig{Queue: "shared"}
			resp, err := c.jobs("c1").SubmitJob(c.ctx(tenant, ""), req)
			require.NoError(t, err)
			return resp.GetJobId()
		}
		runs := submit("t2", 3)
		c.eventually("it does not start", func() bool { return c.getFor("t2", "c1", runs).GetStatus() == v1.JobStatus_TRAINING })
		waits := submit("t1", 4)
		for _, gpus := range []string{"gpus=1", "gpus=2", "gpus=3"} {
			_, err := c.explain("t1", waits, gpus)
			requireCode(t, codes.InvalidArgument, err, gpus)
			require.ErrorContains(t, err, "would tell how much of the limit of queue \"shared\" others hold")
		}
		got, err := c.explain("t1", waits)
		require.NoError(t, err)
		require.NotContains(t, suppositions(got.GetRemedies()), "gpus=1")
	})
}
