package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func (c *cluster) cores(id string) v1.CoreServiceClient {
	return v1.NewCoreServiceClient(c.members[id].conn)
}

func source(t testing.TB, body string) *structpb.Struct {
	s, err := numbers.ParseObject([]byte(`{"schema_version":"0.1","name":"p","flows":[{"name":"main","body":` + body + `}]}`))
	require.NoError(t, err)
	return s
}

// core makes a Core of a program, and waits until it runs.
func (c *cluster) core(id, name, body string) *v1.Core {
	made, err := c.cores(id).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: name, Source: source(c.t, body)})
	require.NoError(c.t, err)
	_, err = c.cores(id).StartCore(c.ctx("t1", ""), &v1.StartCoreRequest{CoreId: made.GetCore().GetId()})
	require.NoError(c.t, err)
	c.eventually("the Core runs", func() bool { return c.coreOf(id, name).GetStatus() == "running" })
	return c.coreOf(id, name)
}

func (c *cluster) coreOf(id, name string) *v1.Core {
	got, err := c.cores(id).GetCore(c.ctx("t1", ""), &v1.GetCoreRequest{CoreId: name})
	require.NoError(c.t, err)
	return got.GetCore()
}

func (c *cluster) invoke(id, core string, input any, wait int32) *v1.Execution {
	value, err := structpb.NewValue(input)
	require.NoError(c.t, err)
	got, err := c.cores(id).InvokeCore(c.ctx("t1", ""), &v1.InvokeCoreRequest{CoreId: core, Input: value, WaitSeconds: &wait})
	require.NoError(c.t, err)
	return got.GetExecution()
}

func (c *cluster) execution(id, execution string) *v1.Execution {
	got, err := c.cores(id).GetExecution(c.ctx("t1", ""), &v1.GetExecutionRequest{ExecutionId: execution})
	require.NoError(c.t, err)
	return got.GetExecution()
}

const aJobBlock = `{"kind":"compute","id":"train","action":"job","spec":{"command_config":{"argv":["true"],"cwd":"/"},"resource_config":{"gpu_count":1}}}`

// A flow runs a job, asks, waits and branches; the leader dies after each of these has begun. Everything happens once.
func TestCores_executionsOutliveLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		agent := c.agent("n1", 4)
		at := c.leader()
		next := func() {
			old := c.leader()
			c.kill(old)
			at = c.leader()
			c.start(old)
		}
		c.core(at, "release", `[`+aJobBlock+`,
			{"kind":"checkpoint","id":"ask","prompt":"Ship {{train.job_id}}?","options":["ship","drop"]},
			{"kind":"wait","id":"rest","duration":"5s"},
			{"kind":"if","id":"branch","cases":[{"when":"ask.resolution == 'ship'","body":[{"kind":"rigid","id":"yes","statements":[{"kind":"return","value":"{\"shipped\": train.job_id, \"by\": ask.resolved_by}"}]}]}],
				"else":[{"kind":"rigid","id":"no","statements":[{"kind":"fail","code":"DROPPED","message":"it was dropped"}]}]}]`)
		e := c.invoke(at, "release", map[string]any{"n": 1}, 0)
		id := e.GetExecutionId()
		c.eventually("the job runs", func() bool { return len(c.execution(at, id).GetWaitingFor()) > 0 })
		waits := c.execution(at, id).GetWaitingFor()[0]
		require.Equal(t, []string{"train", "job"}, []string{waits.GetStep(), waits.GetKind()})
		next()
		c.eventually("the job runs there", func() bool { return agent.has(waits.GetId()) != nil })
		agent.end(waits.GetId(), 0)
		c.eventually("people are asked", func() bool { return len(c.checkpoints(at)) == 1 })
		next()
		asked := c.checkpoints(at)[0]
		require.Equal(t, "Ship "+waits.GetId()+"?", asked.GetPrompt())
		_, err := c.cores(at).ResolveDecision(c.ctx("t1", "", status.KeyUser, "ann"), &v1.ResolveDecisionRequest{CheckpointId: asked.GetId(), Resolution: "ship", Comment: "good"})
		require.NoError(t, err)
		next()
		c.eventually("it is over", func() bool { return c.execution(at, id).GetFinishedAt() != nil })
		done := c.execution(at, id)
		require.Equal(t, "completed", done.GetStatus(), done.GetError())
		require.Equal(t, map[string]any{"shipped": waits.GetId(), "by": "ann"}, done.GetOutput().AsInterface())
		list, err := c.jobs(at).ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{Label: []string{"execution=" + id}, PageSize: 10})
		require.NoError(t, err)
		require.Len(t, list.GetJobs(), 1)

		events, err := c.cores(at).ListCoreEvents(c.ctx("t1", ""), &v1.ListCoreEventsRequest{ExecutionId: id})
		require.NoError(t, err)
		count := map[string]int{}
		for _, e := range events.GetEvents() {
			count[e.GetType()]++
		}
		require.Equal(t, map[string]int{
			"scaicore.runtime.invocation.started": 1, "scaicore.runtime.invocation.completed": 1, "scaicore.runtime.block.entered": 5, "scaicore.runtime.block.exited": 5,
		}, count)
	})
}

func (c *cluster) checkpoints(id string) []*v1.Decision {
	got, err := c.cores(id).ListDecisions(c.ctx("t1", ""), &v1.ListDecisionsRequest{})
	require.NoError(c.t, err)
	return got.GetCheckpoints()
}

func TestCores_refuseWithASentence(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		_, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "bad", Source: source(t, `[{"kind":"while","id":"w","when":"true","body":[{"kind":"wait","id":"x","duration":"1s"}]}]`)})
		require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err))
		require.ErrorContains(t, err, "INVALID_SOURCE_IR: block w: while loop missing max_iterations")
		_, err = c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "!!"})
		require.ErrorContains(t, err, "name: must have 1 to 128 bytes")
		_, err = c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "a\nb"})
		require.ErrorContains(t, err, "name: must not contain control characters")
		_, err = c.cores(at).ListCores(c.ctx("t1", ""), &v1.ListCoresRequest{Cursor: "%00"})
		require.ErrorContains(t, err, "cursor: is not a next_cursor of a page")
		other, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "評価"})
		require.NoError(t, err)
		require.Regexp(t, "^core-[0-9a-f]{10}$", other.GetCore().GetSlug())
		page, err := c.cores(at).ListCores(c.ctx("t1", ""), &v1.ListCoresRequest{Cursor: other.GetCore().GetSlug()})
		require.NoError(t, err)
		require.Empty(t, page.GetCores())
		_, err = c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "e", ConcurrencyMode: "entity"})
		require.ErrorContains(t, err, "use stateless")

		empty, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "Empty One"})
		require.NoError(t, err)
		require.Equal(t, []string{"empty-one", "created"}, []string{empty.GetCore().GetSlug(), empty.GetCore().GetStatus()})
		_, err = c.cores(at).InvokeCore(c.ctx("t1", ""), &v1.InvokeCoreRequest{CoreId: "empty-one"})
		require.Equal(t, codes.FailedPrecondition, grpcstatus.Code(err))
		require.ErrorContains(t, err, "the Core empty-one is created: start it first")
		_, err = c.cores(at).StartCore(c.ctx("t1", ""), &v1.StartCoreRequest{CoreId: "empty-one"})
		require.NoError(t, err)
		c.eventually("it fails", func() bool { return c.coreOf(at, "empty-one").GetStatus() == "error" })
		require.Equal(t, "INVALID_SOURCE_IR: the Core has no program: give it a source", c.coreOf(at, "empty-one").GetError())
		_, err = c.cores(at).DeleteCore(c.ctx("t1", ""), &v1.DeleteCoreRequest{CoreId: "empty-one"})
		require.ErrorContains(t, err, `the Core "empty-one" cannot be deleted: it is error`)
		_, err = c.cores(at).GetCore(c.ctx("t2", ""), &v1.GetCoreRequest{CoreId: empty.GetCore().GetId()})
		require.Equal(t, codes.NotFound, grpcstatus.Code(err))
	})
}

func TestCores_failuresAreRetriedFromTheirStep(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "r", `[{"kind":"rigid","id":"first","statements":[{"kind":"assign","name":"lr","value":"0.1"}]},
			{"kind":"if","id":"check","cases":[{"when":"lr > 0.05","body":[{"kind":"rigid","id":"bad","statements":[{"kind":"fail","code":"DIVERGED","message":"lr {{lr}}"}]}]}]},
			{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"lr"}]}]`)
		e := c.invoke(at, "r", nil, 5)
		require.Equal(t, []string{"failed", "DIVERGED", "lr 0.1", "bad"}, []string{e.GetStatus(), e.GetError().GetCode(), e.GetError().GetMessage(), e.GetError().GetStep()})
		bindings, err := structpb.NewStruct(map[string]any{"lr": 0.01})
		require.NoError(t, err)
		_, err = c.cores(at).RetryExecution(c.ctx("t1", ""), &v1.RetryExecutionRequest{ExecutionId: e.GetExecutionId(), From: "end"})
		require.ErrorContains(t, err, `has not reached a step "end"`)
		_, err = c.cores(at).RetryExecution(c.ctx("t1", ""), &v1.RetryExecutionRequest{ExecutionId: e.GetExecutionId(), From: "check", Bindings: bindings})
		require.NoError(t, err)
		c.eventually("it is over", func() bool { return c.execution(at, e.GetExecutionId()).GetStatus() == "completed" })
		require.Equal(t, 0.01, c.execution(at, e.GetExecutionId()).GetOutput().GetNumberValue())
	})
}

func TestCores_eventsStartAndWake(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "ev", `[{"kind":"wait","id":"w","event":"go","result_binding":"got"},{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"got.n + input.n"}]}]`)
		send := func(name string, n float64) *v1.SendCoreEventResponse {
			data, err := structpb.NewValue(map[string]any{"n": n})
			require.NoError(t, err)
			sent, err := c.cores(at).SendCoreEvent(c.ctx("t1", ""), &v1.SendCoreEventRequest{CoreId: "ev", EventName: name, Data: data})
			require.NoError(t, err)
			return sent
		}
		started := send("begin", 1).GetExecutionIds()
		require.Len(t, started, 1)
		c.eventually("it waits", func() bool { return c.execution(at, started[0]).GetStatus() == "waiting" })
		require.EqualValues(t, 1, send("go", 41).GetWoken())
		c.eventually("it is over", func() bool { return c.execution(at, started[0]).GetFinishedAt() != nil })
		require.Equal(t, 42.0, c.execution(at, started[0]).GetOutput().GetNumberValue())
	})
}

func TestCores_keysStartOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "k", `[{"kind":"rigid","id":"a","statements":[{"kind":"return","value":"1"}]}]`)
		ids := map[string]bool{}
		for range 3 {
			got, err := c.cores(at).InvokeCore(c.ctx("t1", "key-1"), &v1.InvokeCoreRequest{CoreId: "k"})
			require.NoError(t, err)
			require.Equal(t, "completed", got.GetExecution().GetStatus())
			ids[got.GetExecution().GetExecutionId()] = true
		}
		require.Len(t, ids, 1)
		_, err := c.cores(at).InvokeCore(c.ctx("t1", "key-1"), &v1.InvokeCoreRequest{CoreId: "k", Input: structpb.NewBoolValue(true)})
		require.Equal(t, codes.AlreadyExists, grpcstatus.Code(err))
	})
}

func TestCores_environmentIsNeverShown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		env, err := structpb.NewStruct(map[string]any{"A": "canary-1", "B": map[string]any{"type": "secret", "value": "canary-2"}})
		require.NoError(t, err)
		made, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "env", Environment: env, Source: source(t, `[{"kind":"rigid","id":"a","statements":[{"kind":"return","value":"1"}]}]`)})
		require.NoError(t, err)
		require.Equal(t, []string{"A", "B"}, made.GetCore().GetEnvironmentNames())
		require.NotContains(t, fmt.Sprint(made), "canary")
		_, err = c.cores(at).StartCore(c.ctx("t1", ""), &v1.StartCoreRequest{CoreId: "env"})
		require.NoError(t, err)
		c.eventually("it runs", func() bool { return c.coreOf(at, "env").GetStatus() == "running" })
	})
}

// Many executions run while leaders die again and again: each submits its job once, each timer and each answer counts once, and
// none is left behind.
func TestCores_manyExecutionsOutliveManyLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const many, kills = 30, 12
		c := startCluster(t, 3, nil)
		at := c.leader()
		c.core(at, "many", `[{"kind":"foreach","id":"each","items":"[1, 2]","max_concurrent":2,"body":[
				{"kind":"compute","id":"job","action":"job","wait":"none","spec":{"command_config":{"argv":["true"],"cwd":"/"}}},
				{"kind":"wait","id":"rest","duration":"{{input.rest}}s"}],"collect":"job.job_id"},
			{"kind":"checkpoint","id":"ask","prompt":"Go on?","options":["yes"]},
			{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"size(each)"}]}]`)
		ids := map[string]bool{}
		answered := map[string]bool{}
		for i := range many {
			ids[c.invoke(at, "many", map[string]any{"rest": i % 7}, 0).GetExecutionId()] = true
		}
		require.Len(t, ids, many)
		for range kills {
			old := c.leader()
			c.kill(old)
			at = c.leader()
			c.start(old)
			for _, d := range c.checkpoints(at) {
				// One of the answers to the same question wins.
				for range 3 {
					_, err := c.cores(at).ResolveDecision(c.ctx("t1", "", status.KeyUser, "ann"), &v1.ResolveDecisionRequest{CheckpointId: d.GetId(), Resolution: "yes"})
					if err == nil {
						require.False(t, answered[d.GetId()], "it was answered twice")
						answered[d.GetId()] = true
					}
				}
			}
		}
		c.eventually("all are over", func() bool {
			for _, d := range c.checkpoints(at) {
				_, err := c.cores(at).ResolveDecision(c.ctx("t1", ""), &v1.ResolveDecisionRequest{CheckpointId: d.GetId(), Resolution: "yes"})
				require.NoError(t, err)
				answered[d.GetId()] = true
			}
			list, err := c.cores(at).ListExecutions(c.ctx("t1", ""), &v1.ListExecutionsRequest{Status: "completed", Limit: 500})
			require.NoError(t, err)
			return len(list.GetExecutions()) == many
		})
		require.Len(t, answered, many)
		for id := range ids {
			require.Equal(t, 2.0, c.execution(at, id).GetOutput().GetNumberValue())
			list, err := c.jobs(at).ListJobs(c.ctx("t1", ""), &v1.ListJobsRequest{Label: []string{"execution=" + id}, PageSize: 10})
			require.NoError(t, err)
			require.Len(t, list.GetJobs(), 2, "the jobs of %s", id)
		}
	})
}

func TestCores_whoMayAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "ask", `[{"kind":"checkpoint","id":"q","prompt":"How many?","assignee":"user:ann","schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1}}},"subject_digest":"sha256:{{input.digest}}"},
			{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"q.data.n"}]}]`)
		e := c.invoke(at, "ask", map[string]any{"digest": "aa"}, 5)
		require.Equal(t, "waiting", e.GetStatus(), e)
		id := c.checkpoints(at)[0].GetId()
		answer := func(data any, subject string, who ...string) error {
			value, err := structpb.NewValue(data)
			require.NoError(t, err)
			_, err = c.cores(at).ResolveDecision(c.ctx("t1", "", who...), &v1.ResolveDecisionRequest{CheckpointId: id, Data: value, SubjectDigest: subject})
			return err
		}
		good := map[string]any{"n": 3}
		err := answer(good, "", status.KeyUser, "bob")
		require.Equal(t, codes.PermissionDenied, grpcstatus.Code(err))
		require.ErrorContains(t, err, "only user:ann may answer the decision "+id)
		require.ErrorContains(t, answer(map[string]any{"n": 0}, "", status.KeyUser, "ann"), "data: is not of the schema of the checkpoint: at '/n': minimum")
		err = answer(good, "sha256:bb", status.KeyUser, "ann")
		require.Equal(t, codes.FailedPrecondition, grpcstatus.Code(err))
		require.ErrorContains(t, err, "is about sha256:aa, and the answer is about sha256:bb")
		_, err = c.cores(at).GetDecision(c.ctx("t2", ""), &v1.GetDecisionRequest{CheckpointId: id})
		require.Equal(t, codes.NotFound, grpcstatus.Code(err))
		require.NoError(t, answer(good, "sha256:aa", status.KeyUser, "bob", status.KeyOperator, "yes"))
		c.eventually("it is over", func() bool { return c.execution(at, e.GetExecutionId()).GetFinishedAt() != nil })
		require.Equal(t, 3.0, c.execution(at, e.GetExecutionId()).GetOutput().GetNumberValue())
	})
}

// A gateway that repeats a creation, because it does not know whether it happened, makes one Core.
func TestCores_aCreationThatIsRepeatedMakesOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		create := func(key, mode string) (*v1.Core, error) {
			made, err := c.cores(at).CreateCore(c.ctx("t1", key), &v1.CreateCoreRequest{Name: "once", RuntimeMode: mode, Environment: &structpb.Struct{}})
			return made.GetCore(), err
		}
		first, err := create("key-1", "api")
		require.NoError(t, err)
		again, err := create("key-1", "api")
		require.NoError(t, err)
		require.Equal(t, first.GetId(), again.GetId())
		for _, other := range [][2]string{{"key-1", "model"}, {"key-2", "api"}} {
			_, err = create(other[0], other[1])
			require.Equal(t, codes.AlreadyExists, grpcstatus.Code(err))
		}
	})
}

// A decision for a group or a role is answered by a user who belongs to it, also through a coordinator that does not lead.
func TestCores_groupsAndRolesAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.leader()
		c.core(at, "ask", `[{"kind":"foreach","id":"each","items":"input","max_concurrent":2,"var":"who","body":[{"kind":"checkpoint","id":"q","prompt":"?","options":["yes"],"assignee":"{{who}}"}]}]`)
		c.invoke(at, "ask", []any{"group:g1", "role:lead"}, 0)
		c.eventually("both are asked", func() bool { return len(c.checkpoints(at)) == 2 })
		for _, d := range c.checkpoints(at) {
			answer := func(member string) error {
				_, err := c.cores(c.follower()).ResolveDecision(c.ctx("t1", "", status.KeyUser, "bob", status.KeyMember, member), &v1.ResolveDecisionRequest{CheckpointId: d.GetId(), Resolution: "yes"})
				return err
			}
			require.Equal(t, codes.PermissionDenied, grpcstatus.Code(answer("group:g2")))
			require.Equal(t, codes.PermissionDenied, grpcstatus.Code(answer(strings.Replace(d.GetAssigneeRaw(), "g", "x", 1)+"e")))
			require.NoError(t, answer(d.GetAssigneeRaw()))
		}
	})
}

// A gateway that sends an event again, because it does not know whether it came, starts one execution.
func TestCores_eventWithAKeyStartsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "twice", `[{"kind":"rigid","id":"a","statements":[{"kind":"return","value":"1"}]}]`)
		ids := map[string]bool{}
		for range 3 {
			sent, err := c.cores(at).SendCoreEvent(c.ctx("t1", "key-7"), &v1.SendCoreEventRequest{CoreId: "twice", EventName: "go"})
			require.NoError(t, err)
			ids[sent.GetExecutionIds()[0]] = true
		}
		require.Len(t, ids, 1)
	})
}

// The executions of a Core that is stopped are held, and say so, until it is started again.
func TestCores_stopHoldsExecutions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "held", `[{"kind":"checkpoint","id":"ask","prompt":"?","options":["yes"]},{"kind":"rigid","id":"a","statements":[{"kind":"return","value":"ask.resolution"}]}]`)
		id := c.invoke(at, "held", nil, 5).GetExecutionId()
		_, err := c.cores(at).StopCore(c.ctx("t1", ""), &v1.StopCoreRequest{CoreId: "held"})
		require.NoError(t, err)
		c.eventually("it is stopped", func() bool { return c.coreOf(at, "held").GetStatus() == "stopped" })
		_, err = c.cores(at).ResolveDecision(c.ctx("t1", ""), &v1.ResolveDecisionRequest{CheckpointId: c.checkpoints(at)[0].GetId(), Resolution: "yes"})
		require.NoError(t, err)
		require.Equal(t, "paused", c.execution(at, id).GetStatus())
		list, err := c.cores(at).ListExecutions(c.ctx("t1", ""), &v1.ListExecutionsRequest{Status: "paused"})
		require.NoError(t, err)
		require.Len(t, list.GetExecutions(), 1)
		_, err = c.cores(at).StartCore(c.ctx("t1", ""), &v1.StartCoreRequest{CoreId: "held"})
		require.NoError(t, err)
		c.eventually("it is over", func() bool { return c.execution(at, id).GetStatus() == "completed" })
	})
}
