package coordinator

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// A write whose answer was lost is repeated with its key, at the next leader: it takes effect once, and gets the answer
// that was lost.
func TestOnce_answersOutliveTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 4)
		at := c.leader()
		c.core(at, "asks", `[{"kind":"checkpoint","id":"ask","prompt":"Ship?","options":["ship","drop"]}]`)
		c.invoke(at, "asks", map[string]any{}, 0)
		c.eventually("people are asked", func() bool { return len(c.checkpoints(at)) == 1 })
		asked := c.checkpoints(at)[0].GetId()
		_, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "other", Source: source(t, `[{"kind":"wait","id":"w","duration":"1s"}]`)})
		require.NoError(t, err)
		flow, gone := c.flow(at, `{}`).GetId(), c.flow(at, `{}`).GetId()
		job := c.submit(at, patient(sleeper(64, 0)))
		_, err = c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "research"})
		require.NoError(t, err)
		_, err = c.schedules(at).PutSchedule(c.ctx("t1", ""), &v1.PutScheduleRequest{Name: "hourly", Cron: "@hourly", Job: sleeper(0, 1)})
		require.NoError(t, err)
		var digest, another [32]byte
		another[0] = 1

		type write struct {
			name string
			do   func(ctx context.Context, other bool) (proto.Message, error)
		}
		text := func(other bool) string {
			if other {
				return "other"
			}
			return "one"
		}
		writes := []write{
			{"resolve", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.cores(at).ResolveDecision(ctx, &v1.ResolveDecisionRequest{CheckpointId: asked, Resolution: "ship", Comment: text(other)})
			}},
			{"start a Core", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.cores(at).StartCore(ctx, &v1.StartCoreRequest{CoreId: map[bool]string{false: "other", true: "asks"}[other]})
			}},
			{"reserve", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.calendar(at).PutMaintenance(ctx, &v1.PutMaintenanceRequest{Name: "kernel", Nodes: []string{"n*"}, DurationSeconds: 300, Reason: text(other)})
			}},
			{"end a maintenance", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.calendar(at).DeleteMaintenance(ctx, &v1.DeleteMaintenanceRequest{Name: map[bool]string{false: "kernel", true: "disks"}[other]})
			}},
			{"delete a queue", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.nodes(at).DeleteQueue(ctx, &v1.DeleteQueueRequest{Name: map[bool]string{false: "research", true: "x"}[other]})
			}},
			{"put a queue", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.nodes(at).PutQueue(ctx, &v1.PutQueueRequest{Name: "vision", Weight: proto.Int32(map[bool]int32{false: 1, true: 2}[other])})
			}},
			{"delete a schedule", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.schedules(at).DeleteSchedule(ctx, &v1.DeleteScheduleRequest{Name: map[bool]string{false: "hourly", true: "daily"}[other]})
			}},
			{"put a schedule", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.schedules(at).PutSchedule(ctx, &v1.PutScheduleRequest{Name: "nightly", Cron: map[bool]string{false: "@hourly", true: "@daily"}[other], Job: sleeper(0, 1)})
			}},
			{"create a token", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.tokens(at).CreateToken(ctx, &v1.CreateTokenRequest{Digest: map[bool][]byte{false: digest[:], true: another[:]}[other], UserId: "ann", Permissions: []string{"scaimind:view"}})
			}},
			{"change a job", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.jobs(at).UpdateJob(ctx, &v1.UpdateJobRequest{JobId: job, SchedulingConfig: &v1.SchedulingChange{Priority: proto.Int32(map[bool]int32{false: 7, true: 8}[other])}})
			}},
			{"grant a right", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.flows(at).CreateFlowAcl(ctx, &v1.CreateFlowAclRequest{FlowId: flow, PrincipalType: "user", PrincipalId: text(other), Level: "view"})
			}},
			{"delete a flow", func(ctx context.Context, other bool) (proto.Message, error) {
				return c.flows(at).DeleteFlow(ctx, &v1.DeleteFlowRequest{FlowId: map[bool]string{false: gone, true: "00000000-0000-0000-0000-000000000000"}[other]})
			}},
			{"delete a Core", func(ctx context.Context, other bool) (proto.Message, error) {
				made, err := c.cores(at).CreateCore(c.ctx("t1", "made-"+text(other)), &v1.CreateCoreRequest{Name: "gone " + text(other)})
				if err != nil {
					return nil, err
				}
				return c.cores(at).DeleteCore(ctx, &v1.DeleteCoreRequest{CoreId: made.GetCore().GetId()})
			}},
		}
		ctx := func(key string) context.Context {
			return c.ctx("t1", key, status.KeyUser, "ann", status.KeyOperator, "1")
		}
		first := make([]proto.Message, len(writes))
		for i, w := range writes {
			var err error
			first[i], err = w.do(ctx(w.name), false)
			require.NoError(t, err, w.name)
		}
		old := at
		c.kill(old)
		at = c.leader()
		c.start(old)
		for i, w := range writes {
			again, err := w.do(ctx(w.name), false)
			require.NoError(t, err, w.name)
			for _, m := range []proto.Message{first[i], again} {
				if u, ok := m.(*v1.UpdateJobResponse); ok {
					u.Job.Status, u.Job.Reason = 0, "" // The scheduler looks at the job meanwhile.
				}
			}
			require.True(t, proto.Equal(first[i], again), "%s: %v\n%v", w.name, first[i], again)
			_, err = w.do(ctx(w.name), true)
			require.Error(t, err, "%s: another request with the key", w.name)
		}
		_, err = c.nodes(at).PutQueue(ctx("put a queue"), &v1.PutQueueRequest{Name: "vision", Weight: proto.Int32(2)})
		requireCode(t, codes.AlreadyExists, err, "idempotency key")
	})
}
