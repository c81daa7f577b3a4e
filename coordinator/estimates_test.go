package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/forecast"
)

// promptly makes a cluster compute a forecast for every answer.
func promptly(c *Config) { c.Limits.EstimateRest = -1 }

// limited returns a job for two GPUs of a node with a time limit.
func limited(name, node string, hours int) *v1.SubmitJobRequest {
	req := sleeper(2, 0)
	req.Name = name
	req.ResourceConfig.NodeSelector = map[string]string{"name": node}
	req.SchedulingConfig = &v1.SchedulingConfig{}
	if hours > 0 {
		req.SchedulingConfig.MaxRuntimeSeconds = int32(hours) * 3600
	}
	return req
}

func (c *cluster) explained(tenant, id string) []string {
	c.t.Helper()
	resp, err := c.jobs("c1").ExplainJob(c.ctx(tenant, ""), &v1.ExplainJobRequest{JobId: id})
	require.NoError(c.t, err)
	return resp.GetDetails()
}

func TestCluster_estimates(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, promptly)
		a := c.agent("n1", 2)
		submit := func(req *v1.SubmitJobRequest) *v1.SubmitJobResponse {
			resp, err := c.jobs("c1").SubmitJob(c.ctx("t1", ""), req)
			require.NoError(t, err)
			return resp
		}
		first := submit(limited("a", "n1", 10))
		require.Nil(t, first.EstimatedWaitSeconds, "nothing is in its way")
		running := c.awaitStatus("c1", first.GetJobId(), v1.JobStatus_TRAINING)
		require.Nil(t, running.GetEstimatedStartAt())

		second, third := submit(limited("b", "n1", 20)), submit(limited("c", "n1", 0))
		fourth := submit(limited("d", "n1", 1))
		near := func(hours float64, seconds *float64) {
			require.NotNil(t, seconds)
			require.InDelta(t, hours*3600, *seconds, 1800)
		}
		near(10, second.EstimatedWaitSeconds)
		near(30, third.EstimatedWaitSeconds)
		require.Nil(t, fourth.EstimatedWaitSeconds, "nobody knows how long the third takes")

		started := running.GetStartedAt().AsTime()
		require.Equal(t, started.Add(10*time.Hour), c.get("c1", second.GetJobId()).GetEstimatedStartAt().AsTime())
		require.Equal(t, started.Add(30*time.Hour), c.get("c1", third.GetJobId()).GetEstimatedStartAt().AsTime())
		require.Nil(t, c.get("c1", fourth.GetJobId()).GetEstimatedStartAt())

		require.Contains(t, c.explained("t1", second.GetJobId()), "starts in about 10 h at the earliest, when "+first.GetJobId()+" ends (an estimate from the jobs of its tenant alone)")
		require.Contains(t, c.explained("t1", fourth.GetJobId()), "starts at the earliest when "+third.GetJobId()+
			" ends; that time is unknown: set max_runtime_seconds, or wait for a job of that name to complete")

		queue, err := c.nodes("c1").GetQueue(c.ctx("t1", ""), &v1.GetQueueRequest{})
		require.NoError(t, err)
		require.Len(t, queue.GetJobs(), 3)
		near(10, queue.GetJobs()[0].EstimatedWaitSeconds)
		near(30, queue.GetJobs()[1].EstimatedWaitSeconds)
		require.Nil(t, queue.GetJobs()[2].EstimatedWaitSeconds)

		// A job that succeeded in a second predicts the same for the next one of its name.
		time.Sleep(time.Second)
		a.end(first.GetJobId(), 0)
		b := c.awaitStatus("c1", second.GetJobId(), v1.JobStatus_TRAINING)
		submit(limited("a-2", "n1", 10))
		last := submit(limited("e", "n1", 0))
		for _, earlier := range []string{third.GetJobId(), fourth.GetJobId()} {
			_, err := c.jobs("c1").CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: earlier})
			require.NoError(t, err)
		}
		ran := c.get("c1", first.GetJobId())
		require.Equal(t, b.GetStartedAt().AsTime().Add(20*time.Hour).Add(ran.GetFinishedAt().AsTime().Sub(started)), c.get("c1", last.GetJobId()).GetEstimatedStartAt().AsTime())

		later := sleeper(1, 0)
		at := time.Now().Add(100 * time.Hour).UTC().Truncate(time.Second)
		later.SchedulingConfig = &v1.SchedulingConfig{NotBefore: call.Time(at.UnixNano())}
		require.Equal(t, at, c.get("c1", c.submit("c1", later)).GetEstimatedStartAt().AsTime())
	})
}

// The first estimate of each job is compared with its start, on the coordinator that made it.
func TestCluster_errorsOfEstimates(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, promptly)
		a := c.agent("n1", 2)
		var ids []string
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			job := limited(name, "n1", 1)
			job.SchedulingConfig.MaxRuntimeSeconds = 600
			ids = append(ids, c.submit("c1", job))
		}
		at := func(id string) *v1.ExplainJobResponse {
			resp, err := c.jobs("c1").ExplainJob(c.ctx("t1", ""), &v1.ExplainJobRequest{JobId: id})
			require.NoError(t, err)
			return resp
		}
		last := ids[len(ids)-1]
		require.NotNil(t, at(last).GetEstimatedStartAt())
		require.Nil(t, at(last).GetEstimateError(), "none has started of which a start was estimated")
		// Each job ends after eight of its ten minutes. The first had no estimate. The start of b is two minutes early,
		// that of c four, and so on.
		for i, id := range ids[:6] {
			c.awaitStatus("c1", id, v1.JobStatus_TRAINING)
			if off := at(last).GetEstimateError(); i > 0 {
				require.EqualValues(t, i, off.GetJobs())
				require.InDelta(t, -120*float64(i/2+1), off.GetMedianLaterSeconds(), 30, "after %d", i)
				require.InDelta(t, 120*float64(i), off.GetMostWithinSeconds(), 30)
			}
			time.Sleep(8 * time.Minute)
			a.end(id, 0)
		}
		c.awaitStatus("c1", ids[6], v1.JobStatus_TRAINING)
		require.Contains(t, at(last).GetDetails(), "of the last 6 starts of its tenant that were estimated, half were at most about 6 min off, and 9 in 10 at most about 12 min")
		_, err := c.jobs("c1").CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: last})
		require.NoError(t, err)
		require.Nil(t, at(last).GetEstimateError(), "it does not wait")

		both, err := c.jobs("c1").SubmitJobs(c.ctx("t2", ""), &v1.SubmitJobsRequest{Jobs: []*v1.SubmitJobRequest{limited("a", "n1", 10), limited("b", "n1", 10)}})
		require.NoError(t, err)
		resp, err := c.jobs("c1").ExplainJob(c.ctx("t2", ""), &v1.ExplainJobRequest{JobId: both.GetResults()[1].GetJob().GetJobId()})
		require.NoError(t, err)
		require.NotNil(t, resp.GetEstimatedStartAt())
		require.Nil(t, resp.GetEstimateError(), "how long the jobs of one tenant take is not told to another one")
	})
}

func TestCluster_estimatesOfBatchesAndEvaluations(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, promptly)
		c.agent("n1", 2)
		c.awaitStatus("c1", c.submit("c1", limited("a", "n1", 10)), v1.JobStatus_TRAINING)
		batch, err := c.jobs("c1").SubmitJobs(c.ctx("t1", ""), &v1.SubmitJobsRequest{Jobs: []*v1.SubmitJobRequest{limited("b", "n1", 5), limited("c", "n1", 5)}})
		require.NoError(t, err)
		for i, hours := range []float64{10, 15} {
			wait := batch.GetResults()[i].GetJob().EstimatedWaitSeconds
			require.NotNil(t, wait)
			require.InDelta(t, hours*3600, *wait, 1800)
		}
		evaluation, err := v1.NewEvaluationServiceClient(c.members["c1"].conn).SubmitEvaluation(c.ctx("t1", ""), &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{ModelUri: "hf://a/model", Benchmarks: []*v1.Benchmark{{Name: "mmlu"}}},
		})
		require.NoError(t, err)
		require.NotNil(t, evaluation.EstimatedWaitSeconds)
		require.InDelta(t, 20*3600, *evaluation.EstimatedWaitSeconds, 1800)
	})
}

// A tenant's estimates do not depend on the running, past and waiting jobs of another tenant.
func TestTenancy_estimatesAreMadeOfTheTenantsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		told := func(crowded bool) []string {
			c := startCluster(t, 1, promptly)
			own, all := c.agent("n1", 2), c.agent("n2", 4)
			submit := func(tenant string, req *v1.SubmitJobRequest) string {
				resp, err := c.jobs("c1").SubmitJob(c.ctx(tenant, ""), req)
				require.NoError(t, err)
				return resp.GetJobId()
			}
			status := func(tenant, id string) *v1.Job {
				resp, err := c.jobs("c1").GetJob(c.ctx(tenant, ""), &v1.GetJobRequest{JobId: id})
				require.NoError(t, err)
				return resp.GetJob()
			}
			training := func(tenant, id string) {
				c.eventually(id+" never runs", func() bool { return status(tenant, id).GetStatus() == v1.JobStatus_TRAINING })
			}
			first := submit("t1", limited("first", "n1", 10))
			training("t1", first)
			if crowded {
				// The second tenant has a job of the same name that succeeded at once, running jobs, and jobs that wait
				// before those of the first.
				done := submit("t2", limited("second", "n2", 7))
				training("t2", done)
				all.end(done, 0)
				c.eventually("it never ends", func() bool { return status("t2", done).GetStatus() == v1.JobStatus_COMPLETED })
				training("t2", submit("t2", limited("first", "n2", 1)))
				for range 3 {
					req := limited("second", "n1", 3)
					req.SchedulingConfig.Priority = proto.Int32(9)
					submit("t2", req)
				}
			}
			jobs := []string{submit("t1", limited("second", "n1", 20)), submit("t1", limited("third", "n1", 0)), submit("t1", limited("fourth", "n1", 5))}
			started := status("t1", first).GetStartedAt().AsTime()
			name := func(text string) string {
				for i, id := range append([]string{first}, jobs...) {
					text = strings.ReplaceAll(text, id, fmt.Sprintf("job %d", i))
				}
				return text
			}
			var out []string
			for _, id := range jobs {
				start := "nobody knows when"
				if at := status("t1", id).GetEstimatedStartAt(); at != nil {
					start = at.AsTime().Sub(started).String()
				}
				out = append(out, start, name(c.explained("t1", id)[0]))
			}
			queue, err := c.nodes("c1").GetQueue(c.ctx("t1", ""), &v1.GetQueueRequest{})
			require.NoError(t, err)
			for _, j := range queue.GetJobs() {
				wait := "unknown"
				if j.EstimatedWaitSeconds != nil {
					wait = (time.Duration(*j.EstimatedWaitSeconds) * time.Second).Round(time.Hour).String()
				}
				out = append(out, j.GetName()+" "+wait)
			}
			own.end(first, 0)
			return out
		}
		alone := told(false)
		require.Equal(t, []string{
			"10h0m0s", "starts in about 10 h at the earliest, when job 0 ends (an estimate from the jobs of its tenant alone)",
			"30h0m0s", "starts in about 30 h at the earliest, when job 1 ends (an estimate from the jobs of its tenant alone)",
			"nobody knows when", "starts at the earliest when job 2 ends; that time is unknown: set max_runtime_seconds, or wait for a job of that name to complete",
			"second 10h0m0s", "third 30h0m0s", "fourth unknown",
		}, alone)
		require.Equal(t, alone, told(true))
	})
}

// The pause after a forecast is a multiple of its duration. The test runs in real time, because forecasts take no
// virtual time.
func TestCluster_estimatesRest(t *testing.T) {
	t.Parallel()
	c := newClusterOnTCP(t)
	c.found(1, func(c *Config) { c.Limits.EstimateRest = 100_000_000 }) // a forecast of a few microseconds causes a pause of minutes
	c.agent("n1", 2)
	c.awaitStatus("c1", c.submit("c1", limited("a", "n1", 10)), v1.JobStatus_TRAINING)
	require.NotNil(t, c.estimate(limited("b", "n1", 1)))
	require.Nil(t, c.estimate(limited("c", "n1", 1)), "what was foreseen is older than this job")
	queue, err := c.nodes("c1").GetQueue(c.ctx("t1", ""), &v1.GetQueueRequest{})
	require.NoError(t, err)
	require.Len(t, queue.GetJobs(), 2)
	require.NotNil(t, queue.GetJobs()[0].EstimatedWaitSeconds)
	require.Nil(t, queue.GetJobs()[1].EstimatedWaitSeconds)
}

// estimate submits a job, and returns in how many seconds it is expected to start.
func (c *cluster) estimate(req *v1.SubmitJobRequest) *float64 {
	c.t.Helper()
	resp, err := c.jobs("c1").SubmitJob(c.ctx("t1", ""), req)
	require.NoError(c.t, err)
	return resp.EstimatedWaitSeconds
}

// Forecasts do not delay a flood of submits.
func TestCluster_estimatesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, promptly)
		c.agent("n1", 2)
		c.awaitStatus("c1", c.submit("c1", limited("a", "n1", 10)), v1.JobStatus_TRAINING)
		many := &v1.SubmitJobsRequest{}
		for range forecast.MaxOnSubmit {
			many.Jobs = append(many.Jobs, limited("b", "n1", 1))
		}
		batch, err := c.jobs("c1").SubmitJobs(c.ctx("t1", ""), many)
		require.NoError(t, err)
		require.NotNil(t, batch.GetResults()[0].GetJob().EstimatedWaitSeconds)
		require.Nil(t, batch.GetResults()[forecast.MaxOnSubmit-1].GetJob().EstimatedWaitSeconds, "too far away to be planned")
		require.Nil(t, c.estimate(limited("one more", "n1", 1)))
		queue, err := c.nodes("c1").GetQueue(c.ctx("t1", ""), &v1.GetQueueRequest{})
		require.NoError(t, err)
		require.NotNil(t, queue.GetJobs()[0].EstimatedWaitSeconds)
	})
}
