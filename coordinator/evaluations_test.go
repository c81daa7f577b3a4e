package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func (c *cluster) evaluations(id string) v1.EvaluationServiceClient {
	return v1.NewEvaluationServiceClient(c.members[id].conn)
}

func benchmarks(names ...string) []*v1.Benchmark {
	var out []*v1.Benchmark
	for _, name := range names {
		out = append(out, &v1.Benchmark{Name: name})
	}
	return out
}

func (c *cluster) evaluate(at string, req *v1.SubmitEvaluationRequest) string {
	c.t.Helper()
	reply, err := c.evaluations(at).SubmitEvaluation(c.ctx("t1", ""), req)
	require.NoError(c.t, err)
	require.Equal(c.t, v1.JobStatus_PENDING, reply.GetStatus())
	return reply.GetEvaluationId()
}

func workload(evaluation string) string { return "job_" + strings.TrimPrefix(evaluation, "eval_") }

// awaitEvaluation polls until an evaluation satisfies a condition.
func (c *cluster) awaitEvaluation(at, id string, want func(*v1.Evaluation) bool) *v1.Evaluation {
	c.t.Helper()
	var last *v1.Evaluation
	c.eventually("evaluation "+id+" never came to what was awaited", func() bool {
		reply, err := c.evaluations(at).GetEvaluation(c.ctx("t1", ""), &v1.GetEvaluationRequest{EvaluationId: id})
		require.NoError(c.t, err)
		last = reply.GetEvaluation()
		return want(last)
	})
	return last
}

func has(results int) func(*v1.Evaluation) bool {
	return func(e *v1.Evaluation) bool { return len(e.GetResults()) == results }
}

func accuracy(benchmark string, value float64) *v1.EvaluationReport {
	return &v1.EvaluationReport{Benchmark: benchmark, MetricsJson: fmt.Sprintf(`{"accuracy":%v}`, value), NumSamples: 100}
}

func TestCluster_anEvaluationFromSubmitToComparison(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		agent := c.agent("n1", 8)
		at := c.follower()

		trained := c.submit(at, sleeper(1, 0))
		_, err := c.evaluations(at).SubmitEvaluation(c.ctx("t1", ""), &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{JobId: trained, Benchmarks: benchmarks("mmlu")},
		})
		requireCode(t, codes.FailedPrecondition, err)
		c.awaitStatus(at, trained, v1.JobStatus_TRAINING)
		save := func(step int64) {
			agent.mu.Lock()
			defer agent.mu.Unlock()
			for _, task := range agent.tasks {
				if task.ref.GetJobId() == trained {
					agent.report(&v1.Report{Task: task.ref, Body: &v1.Report_Checkpoint{Checkpoint: &v1.CheckpointReport{
						Path: fmt.Sprintf("/checkpoints/%d", step), Step: step, ManifestDigest: fmt.Sprint(step), SizeBytes: 1,
					}}})
				}
			}
		}
		save(100)
		first := c.await(at, trained, func(j *v1.Job) bool { return j.GetLastCheckpointId() != "" }).GetLastCheckpointId()

		// A running job is scored at its newest checkpoint at the time of the submit.
		req := &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{JobId: trained, Benchmarks: benchmarks("mmlu", "arc")}, Labels: map[string]string{"team": "nlp"},
		}
		reply, err := c.evaluations(at).SubmitEvaluation(c.ctx("t1", "once"), req)
		require.NoError(t, err)
		one := reply.GetEvaluationId()
		save(200)
		second := c.await(at, trained, func(j *v1.Job) bool { return j.GetLastCheckpointId() != first }).GetLastCheckpointId()
		again, err := c.evaluations(c.leader()).SubmitEvaluation(c.ctx("t1", "once"), req)
		require.NoError(t, err)
		require.Equal(t, one, again.GetEvaluationId(), "the same key is the same evaluation, also when there is a newer checkpoint")
		_, err = c.evaluations(at).SubmitEvaluation(c.ctx("t1", "once"), &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{JobId: trained, Benchmarks: benchmarks("arc")},
		})
		requireCode(t, codes.AlreadyExists, err)

		e := c.awaitEvaluation(at, one, func(e *v1.Evaluation) bool { return e.GetStatus() == v1.JobStatus_EVALUATING })
		require.Equal(t, map[string]string{"team": "nlp", "type": "evaluation"}, e.GetLabels())
		require.Equal(t, "evaluation of "+trained+" at "+first, e.GetName())
		require.Equal(t, first, e.GetCheckpointId())
		require.Equal(t, workload(one), e.GetWorkloadJobId())
		spec := agent.has(workload(one))
		require.Equal(t, "/checkpoints/100", spec.GetModelPath())
		require.Len(t, spec.GetGpus(), 1, "one GPU when nothing is said")
		require.Equal(t, v1.JobPhase_EVALUATING, c.get(at, workload(one)).GetPhase())
		require.True(t, proto.Equal(&v1.EvaluationConfig{JobId: trained, CheckpointId: first, Benchmarks: benchmarks("mmlu", "arc")}, c.get(at, workload(one)).GetEvaluationConfig()))
		listed, err := c.jobs(at).ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{Status: []v1.JobStatus_Value{v1.JobStatus_EVALUATING}, Label: []string{"type=evaluation"}})
		require.NoError(t, err)
		require.Len(t, listed.GetJobs(), 1, "it is a job, too")

		agent.score(workload(one), accuracy("mmlu", 0.5))
		agent.score(workload(one), &v1.EvaluationReport{Benchmark: "words", MetricsJson: `{"accuracy":"much"}`})
		e = c.awaitEvaluation(at, one, has(2))
		require.Equal(t, map[string]any{"accuracy": 0.5}, e.GetResults()[0].GetMetrics().AsMap())
		require.EqualValues(t, 100, e.GetResults()[0].GetNumSamples())
		require.Contains(t, e.GetResults()[1].GetError(), "not a JSON object of numbers")
		require.Empty(t, e.GetReason(), "there may still come one of arc")
		agent.end(workload(one), 0)
		e = c.awaitEvaluation(at, one, func(e *v1.Evaluation) bool { return e.GetStatus() == v1.JobStatus_COMPLETED })
		require.Contains(t, e.GetReason(), "without reporting a result of arc")

		two := c.evaluate(at, &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{JobId: trained, CheckpointId: second, Benchmarks: benchmarks("mmlu", "arc")},
			ResourceConfig:   &v1.ResourceConfig{CpuCount: 1},
		})
		c.awaitStatus(at, workload(two), v1.JobStatus_EVALUATING)
		require.Empty(t, agent.has(workload(two)).GetGpus(), "none when so it is said")
		agent.score(workload(two), accuracy("mmlu", 0.75))
		agent.score(workload(two), accuracy("arc", 0.25))
		c.awaitEvaluation(at, two, has(2))
		compared, err := c.evaluations(at).CompareEvaluations(c.ctx("t1", ""), &v1.CompareEvaluationsRequest{EvaluationIds: []string{one, two}})
		require.NoError(t, err)
		value := func(id string, value, delta *float64) *v1.ComparisonValue {
			return &v1.ComparisonValue{EvaluationId: id, Value: value, Delta: delta}
		}
		want := []*v1.ComparisonRow{
			{Benchmark: "mmlu", Metric: "accuracy", Values: []*v1.ComparisonValue{value(one, proto.Float64(0.5), nil), value(two, proto.Float64(0.75), proto.Float64(0.25))}},
			{Benchmark: "arc", Metric: "accuracy", Values: []*v1.ComparisonValue{value(one, nil, nil), value(two, proto.Float64(0.25), nil)}},
		}
		require.Len(t, compared.GetRows(), len(want))
		for i := range want {
			require.True(t, proto.Equal(want[i], compared.GetRows()[i]), "%v", compared.GetRows()[i])
		}

		// A repeated submit gets the first answer, even if it would be refused now.
		_, err = c.jobs(at).DeleteCheckpoint(c.ctx("t1", ""), &v1.DeleteCheckpointRequest{CheckpointId: first})
		require.NoError(t, err)
		gone := &v1.SubmitEvaluationRequest{EvaluationConfig: &v1.EvaluationConfig{JobId: trained, CheckpointId: first, Benchmarks: benchmarks("arc")}}
		_, err = c.evaluations(at).SubmitEvaluation(c.ctx("t1", "later"), gone)
		requireCode(t, codes.NotFound, err)
		gone.EvaluationConfig.CheckpointId = second
		made, err := c.evaluations(at).SubmitEvaluation(c.ctx("t1", "later"), gone)
		require.NoError(t, err)
		save(300)
		c.await(at, trained, func(j *v1.Job) bool { return j.GetLastCheckpointId() != second })
		_, err = c.jobs(at).DeleteCheckpoint(c.ctx("t1", ""), &v1.DeleteCheckpointRequest{CheckpointId: second})
		require.NoError(t, err)
		again, err = c.evaluations(at).SubmitEvaluation(c.ctx("t1", "later"), gone)
		require.NoError(t, err)
		require.Equal(t, made.GetEvaluationId(), again.GetEvaluationId())
		_, err = c.evaluations(at).SubmitEvaluation(c.ctx("t1", "another"), gone)
		requireCode(t, codes.NotFound, err)
	})
}

// The results outlive the leader, and a retried attempt replaces them.
func TestCluster_resultsSurviveTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		agent := c.agent("n1", 8)
		leader := c.leader()
		id := c.evaluate(leader, &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{ModelUri: "file:///models/a", Benchmarks: benchmarks("mmlu", "arc")},
			SchedulingConfig: &v1.SchedulingConfig{MaxRetries: proto.Int32(1), RetryOn: []string{"exit"}},
		})
		c.awaitStatus(leader, workload(id), v1.JobStatus_EVALUATING)
		require.Equal(t, "/models/a", agent.has(workload(id)).GetModelPath())
		agent.score(workload(id), accuracy("mmlu", 0.5))
		agent.score(workload(id), accuracy("arc", 0.125))
		before := c.awaitEvaluation(leader, id, has(2))
		c.kill(leader)
		at := c.leader()
		require.True(t, proto.Equal(before, c.awaitEvaluation(at, id, has(2))))

		agent.end(workload(id), 1)
		c.await(at, workload(id), func(j *v1.Job) bool { return j.GetAttempt() == 2 && j.GetStatus() == v1.JobStatus_EVALUATING })
		agent.score(workload(id), accuracy("mmlu", 0.75))
		after := c.awaitEvaluation(at, id, func(e *v1.Evaluation) bool { return len(e.GetResults()) == 2 && e.GetResults()[1].GetAttempt() == 2 })
		require.Equal(t, "arc", after.GetResults()[0].GetName())
		require.EqualValues(t, 1, after.GetResults()[0].GetAttempt(), "nothing newer is known")
		require.Equal(t, map[string]any{"accuracy": 0.75}, after.GetResults()[1].GetMetrics().AsMap())
		agent.end(workload(id), 0)
		c.awaitStatus(at, workload(id), v1.JobStatus_COMPLETED)
		c.start(leader)
		c.leader()
		require.Len(t, c.awaitEvaluation(leader, id, has(2)).GetResults(), 2, "also where it was down meanwhile")
	})
}

func TestCluster_evaluationsAreListedAndFound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		plain := c.submit("c1", sleeper(1, 0))
		var ids []string
		for i := range 7 {
			ids = append(ids, c.evaluate("c1", &v1.SubmitEvaluationRequest{
				EvaluationConfig: &v1.EvaluationConfig{ModelUri: fmt.Sprintf("hf://acme/model-%d", i), Benchmarks: benchmarks("mmlu")},
			}))
		}
		var got []string
		token := ""
		for {
			reply, err := c.evaluations("c1").ListEvaluations(c.ctx("t1", ""), &v1.ListEvaluationsRequest{PageSize: 3, PageToken: token})
			require.NoError(t, err)
			require.EqualValues(t, 7, reply.GetTotalCount())
			for _, e := range reply.GetEvaluations() {
				got = append([]string{e.GetEvaluationId()}, got...)
			}
			if token = reply.GetNextPageToken(); token == "" {
				break
			}
		}
		require.Equal(t, ids, got, "newest first")
		jobsPage, err := c.jobs("c1").ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{PageSize: 1, Label: []string{"type=evaluation"}})
		require.NoError(t, err)
		_, err = c.evaluations("c1").ListEvaluations(c.ctx("t1", ""), &v1.ListEvaluationsRequest{PageToken: jobsPage.GetNextPageToken()})
		requireCode(t, codes.InvalidArgument, err)
		for _, name := range []string{plain, "eval_" + strings.TrimPrefix(plain, "job_"), ids[0][1:], "", workload(ids[0])} {
			_, err := c.evaluations("c1").GetEvaluation(c.ctx("t1", ""), &v1.GetEvaluationRequest{EvaluationId: name})
			requireCode(t, codes.NotFound, err)
		}
		compare := func(tenant string, ids ...string) error {
			_, err := c.evaluations("c1").CompareEvaluations(c.ctx(tenant, ""), &v1.CompareEvaluationsRequest{EvaluationIds: ids})
			return err
		}
		require.NoError(t, compare("t1", ids[0], ids[1]))
		requireCode(t, codes.InvalidArgument, compare("t1", ids[0]))
		requireCode(t, codes.InvalidArgument, compare("t1", ids[0], ids[0]))
		requireCode(t, codes.NotFound, compare("t1", ids[0], "eval_zzz"))
		requireCode(t, codes.NotFound, compare("t2", ids[0], ids[1]))
		reply, err := c.evaluations("c1").ListEvaluations(c.ctx("t1", ""), &v1.ListEvaluationsRequest{JobId: plain})
		require.NoError(t, err)
		require.Zero(t, reply.GetTotalCount())
		theirs, err := c.evaluations("c1").ListEvaluations(c.ctx("t2", ""), &v1.ListEvaluationsRequest{})
		require.NoError(t, err)
		require.Zero(t, theirs.GetTotalCount())
		_, err = c.evaluations("c1").ListEvaluations(c.ctx("t1", ""), &v1.ListEvaluationsRequest{JobId: "x"})
		requireCode(t, codes.InvalidArgument, err)

		// The label of evaluations cannot be set by users.
		byHand := sleeper(1, 0)
		byHand.Labels = map[string]string{"type": "evaluation"}
		_, err = c.jobs("c1").SubmitJob(c.ctx("t1", ""), byHand)
		requireCode(t, codes.InvalidArgument, err)
		_, err = c.jobs("c1").SubmitJob(c.ctx("t1", ""), &v1.SubmitJobRequest{
			Name: "x", EvaluationConfig: &v1.EvaluationConfig{ModelUri: "hf://a/b", Benchmarks: benchmarks("mmlu")},
		})
		requireCode(t, codes.InvalidArgument, err)
		byHand.Labels = map[string]string{"type": "anything else"}
		c.submit("c1", byHand)
		_, err = c.evaluations("c1").SubmitEvaluation(c.ctx("t1", ""), &v1.SubmitEvaluationRequest{
			EvaluationConfig: &v1.EvaluationConfig{ModelUri: "hf://a/b", Benchmarks: benchmarks("mmlu")}, Labels: map[string]string{"type": "x"},
		})
		requireCode(t, codes.InvalidArgument, err)

		// Its workload is retried like any job.
		_, err = c.jobs("c1").CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: workload(ids[0])})
		require.NoError(t, err)
		c.awaitStatus("c1", workload(ids[0]), v1.JobStatus_CANCELLED)
		retried, err := c.jobs("c1").RetryJob(c.ctx("t1", ""), &v1.RetryJobRequest{JobId: workload(ids[0]), ModifyResources: &v1.ResourceConfig{GpuCount: 2}})
		require.NoError(t, err)
		require.EqualValues(t, 2, retried.GetJob().GetResourceConfig().GetGpuCount())
		require.Equal(t, "hf://acme/model-0", retried.GetJob().GetEvaluationConfig().GetModelUri())
	})
}
