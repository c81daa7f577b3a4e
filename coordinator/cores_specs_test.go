package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// The spec of an evaluation is the body of the REST request, as docs/use/flows.md says.
func TestCores_specOfAnEvaluationIsThatOfREST(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "score", `[{"kind":"compute","id":"score","action":"evaluate","wait":"none","spec":{"model_uri":"/srv/model","name":"by hand",
			"benchmarks":[{"name":"mmlu","num_samples":"{{input.samples}}"}],"resource_config":{"gpu_count":0},"labels":{"team":"a"}}},
			{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"score.evaluation_id"}]}]`)
		e := c.invoke(at, "score", map[string]any{"samples": 7}, 5)
		require.Equal(t, "completed", e.GetStatus(), e.GetError())
		list, err := c.jobs(at).ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{Label: []string{"execution=" + e.GetExecutionId(), "team=a"}, PageSize: 10})
		require.NoError(t, err)
		require.Len(t, list.GetJobs(), 1)
		got, err := c.jobs(at).GetJob(c.ctx("t1", ""), &v1.GetJobRequest{JobId: list.GetJobs()[0].GetJobId()})
		require.NoError(t, err)
		config := got.GetJob().GetEvaluationConfig()
		require.Equal(t, []any{"by hand", "/srv/model", "mmlu", int32(7)}, []any{got.GetJob().GetName(), config.GetModelUri(), config.GetBenchmarks()[0].GetName(), config.GetBenchmarks()[0].GetNumSamples()})
	})
}

// The environment is sealed for the slug, and goes with it.
func TestCores_environmentOutlivesAnotherName(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		env, err := structpb.NewStruct(map[string]any{"A": "canary"})
		require.NoError(t, err)
		body := `[{"kind":"rigid","id":"a","statements":[{"kind":"return","value":"1"}]}]`
		made, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "first", Environment: env, Source: source(t, body)})
		require.NoError(t, err)
		changed, err := c.cores(at).UpdateCore(c.ctx("t1", ""), &v1.UpdateCoreRequest{CoreId: "first", Name: "second"})
		require.NoError(t, err)
		require.Equal(t, []string{"A"}, changed.GetCore().GetEnvironmentNames())
		_, err = c.cores(at).UpdateCore(c.ctx("t1", ""), &v1.UpdateCoreRequest{CoreId: "second", Name: "third", IfRevision: changed.GetCore().GetRevision() + 1})
		require.Equal(t, codes.FailedPrecondition, grpcstatus.Code(err), "%v", err)
		_, err = c.cores(at).StartCore(c.ctx("t1", ""), &v1.StartCoreRequest{CoreId: made.GetCore().GetId()})
		require.NoError(t, err)
		c.eventually("it has started", func() bool { return c.coreOf(at, "second").GetStatus() != "starting" })
		require.Equal(t, "running", c.coreOf(at, "second").GetStatus(), c.coreOf(at, "second").GetError())
	})
}

// All coordinators die. The execution stands meanwhile, and its timer has passed when they are back.
func TestCores_executionsOutliveAllCoordinators(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.leader()
		c.core(at, "rest", `[{"kind":"wait","id":"nap","duration":"5s"},{"kind":"checkpoint","id":"ask","prompt":"Go on?","options":["yes"]},
			{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"ask.resolution"}]}]`)
		id := c.invoke(at, "rest", nil, 0).GetExecutionId()
		c.eventually("it waits", func() bool { return c.execution(at, id).GetStatus() == "waiting" })
		for range 2 {
			for _, one := range c.ids {
				c.kill(one)
			}
			for _, one := range c.ids {
				c.start(one)
			}
			at = c.leader()
			require.Equal(t, id, c.execution(at, id).GetExecutionId())
			c.eventually("it asks", func() bool { return len(c.checkpoints(at)) == 1 })
		}
		_, err := c.cores(at).ResolveDecision(c.ctx("t1", ""), &v1.ResolveDecisionRequest{CheckpointId: c.checkpoints(at)[0].GetId(), Resolution: "yes"})
		require.NoError(t, err)
		c.eventually("it is over", func() bool { return c.execution(at, id).GetFinishedAt() != nil })
		require.Equal(t, "yes", c.execution(at, id).GetOutput().GetStringValue())
	})
}
