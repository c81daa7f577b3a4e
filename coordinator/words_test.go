package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// All texts about a job's state use the names of statuses.
func TestCluster_saysWhatTheStatusSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		a := c.agent("n1", 4)
		ctx, jobs := c.ctx("t1", ""), c.jobs("c1")
		refused := func(err error, says string) {
			t.Helper()
			requireCode(t, codes.FailedPrecondition, err)
			require.ErrorContains(t, err, says)
		}
		id := c.submit("c1", sleeper(1, 0))
		c.awaitStatus("c1", id, v1.JobStatus_TRAINING)
		_, err := jobs.ResumeJob(ctx, &v1.ResumeJobRequest{JobId: id})
		refused(err, "job "+id+" is TRAINING: only a paused job can be resumed")
		_, err = c.evaluations("c1").SubmitEvaluation(ctx, &v1.SubmitEvaluationRequest{EvaluationConfig: &v1.EvaluationConfig{JobId: id, Benchmarks: benchmarks("mmlu")}})
		refused(err, "job "+id+", which is TRAINING, has nothing to score yet")
		explained, err := jobs.ExplainJob(ctx, &v1.ExplainJobRequest{JobId: id})
		require.NoError(t, err)
		require.Equal(t, v1.JobStatus_TRAINING, explained.GetStatus())

		a.end(id, 0)
		c.awaitStatus("c1", id, v1.JobStatus_COMPLETED)
		_, err = jobs.PauseJob(ctx, &v1.PauseJobRequest{JobId: id})
		refused(err, "job "+id+" is COMPLETED: only a job that waits or runs can be paused")
		_, err = jobs.CancelJob(ctx, &v1.CancelJobRequest{JobId: id})
		refused(err, "job "+id+" is COMPLETED already")
		canceled := c.submit("c1", sleeper(0, 0))
		_, err = jobs.CancelJob(ctx, &v1.CancelJobRequest{JobId: canceled, Reason: "job " + canceled + " is RUNNING wild"})
		require.NoError(t, err)
		c.awaitStatus("c1", canceled, v1.JobStatus_CANCELLED)
		_, err = jobs.CancelJob(ctx, &v1.CancelJobRequest{JobId: canceled})
		refused(err, "job "+canceled+" is CANCELLED already")

		scoring := c.evaluate("c1", &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{ModelUri: "/models/a", Benchmarks: benchmarks("mmlu")}, ResourceConfig: &v1.ResourceConfig{CpuCount: 1},
		})
		c.awaitStatus("c1", workload(scoring), v1.JobStatus_EVALUATING)
		_, err = jobs.RetryJob(ctx, &v1.RetryJobRequest{JobId: workload(scoring)})
		refused(err, "is EVALUATING: only a job that")
		_, err = jobs.CancelJob(ctx, &v1.CancelJobRequest{JobId: workload(scoring)})
		require.NoError(t, err)
		c.awaitStatus("c1", workload(scoring), v1.JobStatus_CANCELLED)

		said := map[string]string{}
		records, err := c.auditLog("c1").ListAuditRecords(ctx, &v1.ListAuditRecordsRequest{Action: "job"})
		require.NoError(t, err)
		for _, r := range records.GetRecords() {
			said[r.GetAction()+" "+r.GetObject()+" "+r.GetOutcome()] += r.GetMessage()
		}
		require.Contains(t, said["job.pause "+id+" FAILED_PRECONDITION"], "is COMPLETED: only")
		require.Contains(t, said["job.retry "+workload(scoring)+" FAILED_PRECONDITION"], "is EVALUATING: only", "though it is not any more")
		require.Equal(t, "job "+canceled+" is RUNNING wild", said["job.cancel "+canceled+" OK"], "what a user said stays as it was said")

		since := uint64(0)
		stream, err := v1.NewEventServiceClient(c.members["c1"].conn).WatchEvents(ctx, &v1.WatchEventsRequest{Topics: []string{"job"}, SinceIndex: &since})
		require.NoError(t, err)
		told := map[string]bool{}
		for !told["TRAINING COMPLETED"] || !told["EVALUATING CANCELLED"] {
			batch, err := stream.Recv()
			require.NoError(t, err)
			for _, e := range batch.GetEvents() {
				told[e.GetStatusFrom().String()+" "+e.GetStatusTo().String()] = true
			}
		}
		require.True(t, told["UNSPECIFIED QUEUED"])
		require.True(t, told["SCHEDULING PREPARING"] || told["SCHEDULING TRAINING"])
	})
}
