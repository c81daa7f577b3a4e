package coordinator

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// I10: a watcher sees every change once, in order, across leader changes.
func TestCluster_watchersSeeEverythingOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 8)
		watch := func(at, tenant string, req *v1.WatchEventsRequest) (v1.EventService_WatchEventsClient, context.CancelFunc) {
			ctx, cancel := context.WithCancel(c.ctx(tenant, ""))
			stream, err := v1.NewEventServiceClient(c.members[at].conn).WatchEvents(ctx, req)
			require.NoError(t, err)
			return stream, cancel
		}
		zero := uint64(0)
		theirs := c.follower()
		var ids []string
		for range 3 {
			id := c.submit(c.leader(), sleeper(1, 0))
			c.awaitStatus(theirs, id, v1.JobStatus_TRAINING)
			ids = append(ids, id)
		}
		stream, stop := watch(c.leader(), "t1", &v1.WatchEventsRequest{Topics: []string{"job"}, SinceIndex: &zero})
		states := map[string]v1.JobState_Value{}
		cursor, seen := "", map[string]bool{}
		take := func(until func() bool) {
			for !until() {
				m, err := stream.Recv()
				require.NoError(t, err)
				for _, e := range m.GetEvents() {
					require.False(t, seen[e.GetCursor()], "%s twice", e)
					require.Equal(t, states[e.GetJobId()].String(), e.GetFrom().String(), "an event of %s is missing", e.GetJobId())
					seen[e.GetCursor()], states[e.GetJobId()] = true, e.GetTo()
					require.Equal(t, "job", e.GetTopic())
				}
				cursor = m.GetCursor()
			}
		}
		take(func() bool { return states[ids[2]] == v1.JobState_RUNNING })
		stop()
		c.kill(c.leader())
		at := c.leader()
		for _, id := range ids {
			_, err := c.jobs(at).CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: id})
			require.NoError(t, err)
		}
		stream, stop = watch(at, "t1", &v1.WatchEventsRequest{Topics: []string{"job"}, Cursor: cursor})
		defer stop()
		take(func() bool {
			return states[ids[0]] == v1.JobState_CANCELED && states[ids[1]] == v1.JobState_CANCELED && states[ids[2]] == v1.JobState_CANCELED
		})

		// I11: another tenant sees none of it.
		other, stopOther := watch(at, "evil", &v1.WatchEventsRequest{SinceIndex: &zero})
		defer stopOther()
		_, err := c.jobs(at).SubmitJob(c.ctx("evil", ""), sleeper(0, 0))
		require.NoError(t, err)
		for own := false; !own; {
			m, err := other.Recv()
			require.NoError(t, err)
			for _, e := range m.GetEvents() {
				require.NotContains(t, ids, e.GetJobId())
				own = own || e.GetTopic() == "job"
			}
		}

		// An index of the future is refused, and is not passed on as the index of the state.
		far := uint64(1 << 62)
		for _, req := range []*v1.WatchEventsRequest{{SinceIndex: &far}, {Cursor: "18446744073709551615.5"}} {
			future, stopFuture := watch(at, "t1", req)
			_, err := future.Recv()
			requireCode(t, codes.FailedPrecondition, err)
			header, _ := future.Header()
			require.Less(t, indexIn(call.First(header, status.KeyIndex)), uint64(1<<30))
			require.Less(t, indexIn(call.First(future.Trailer(), status.KeyIndex)), uint64(1<<30))
			stopFuture()
			stale, cancel := context.WithCancel(c.ctx("t1", "", status.KeyConsistency, status.Stale))
			future, err = v1.NewEventServiceClient(c.members[at].conn).WatchEvents(stale, req)
			require.NoError(t, err)
			header, err = future.Header()
			require.NoError(t, err)
			require.Less(t, indexIn(call.First(header, status.KeyIndex)), uint64(1<<30))
			cancel()
		}
		for _, req := range []*v1.WatchEventsRequest{{Topics: []string{"secrets"}}, {Cursor: "1"}, {Cursor: "1.-1"}, {Cursor: "a.b"}} {
			bad, stopBad := watch(at, "t1", req)
			_, err := bad.Recv()
			requireCode(t, codes.InvalidArgument, err)
			stopBad()
		}
	})
}
