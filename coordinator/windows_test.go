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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

func (c *cluster) calendar(id string) v1.CalendarServiceClient {
	return v1.NewCalendarServiceClient(c.members[id].conn)
}

// The leader dies before a maintenance begins: the next leader drains the node, and enables it at the end.
func TestCalendar_maintenanceOutlivesTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		c.agent("n1", 4)
		at := c.follower()
		job := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, job, v1.JobStatus_TRAINING)
		put, err := c.calendar(at).PutMaintenance(c.ctx("t1", "", status.KeyUser, "ann"), &v1.PutMaintenanceRequest{
			Name: "kernel", Nodes: []string{"n*"}, From: timestamppb.New(time.Now().Add(20 * time.Second)), DurationSeconds: 300, Reason: "new kernel",
		})
		require.NoError(t, err)
		require.Equal(t, []string{"n1"}, put.GetWindow().GetNodes())
		require.Equal(t, "PLANNED", put.GetWindow().GetState())
		for operator, who := range map[string]string{"": "", "1": "ann"} {
			list, err := c.calendar(at).ListMaintenance(c.ctx("t1", "", status.KeyOperator, operator), &v1.ListMaintenanceRequest{})
			require.NoError(t, err)
			require.Equal(t, who, list.GetMaintenance()[0].GetCreatedBy(), "operators see who made it")
		}
		late := c.submit(at, sleeper(1, 0))
		c.await(at, late, func(j *v1.Job) bool {
			return strings.Contains(j.GetReason(), "1 node is kept for a maintenance or a reservation")
		})

		c.kill(c.leader())
		c.eventually("the node is never drained", func() bool {
			n, err := c.nodes(at).GetNode(c.ctx("t1", ""), &v1.GetNodeRequest{NodeId: "n1"})
			return err == nil && (n.GetNode().GetState() == v1.NodeState_DRAINING || n.GetNode().GetState() == v1.NodeState_DRAINED)
		})
		_, err = c.calendar(at).DeleteMaintenance(c.ctx("t1", ""), &v1.DeleteMaintenanceRequest{Name: "kernel"})
		require.NoError(t, err)
		c.awaitStatus(at, late, v1.JobStatus_TRAINING)
		_, err = c.calendar(at).DeleteMaintenance(c.ctx("t1", ""), &v1.DeleteMaintenanceRequest{Name: "kernel"})
		requireCode(t, codes.NotFound, err)
	})
}

func TestCalendar_reservationsAreOfATenant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		c.agent("n1", 4)
		at := c.leader()
		c.eventually("n1 is never ready", func() bool {
			n, err := c.nodes(at).GetNode(c.ctx("t1", ""), &v1.GetNodeRequest{NodeId: "n1"})
			return err == nil && n.GetNode().GetState() == v1.NodeState_READY
		})
		_, err := c.calendar(at).PutReservation(c.ctx("t1", ""), &v1.PutReservationRequest{Name: "paper", TenantId: "t2", Gpus: 1, DurationSeconds: 60})
		requireCode(t, codes.PermissionDenied, err)
		put, err := c.calendar(at).PutReservation(c.ctx("t1", ""), &v1.PutReservationRequest{Name: "paper", Gpus: 1, DurationSeconds: 60, Reason: "a paper"})
		require.NoError(t, err)
		require.Equal(t, "t1", put.GetWindow().GetTenantId())
		list, err := c.calendar(at).ListReservations(c.ctx("t1", ""), &v1.ListReservationsRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetReservations(), 1)
		require.Equal(t, "a paper", list.GetReservations()[0].GetReason())
		list, err = c.calendar(at).ListReservations(c.ctx("t2", ""), &v1.ListReservationsRequest{})
		require.NoError(t, err)
		require.Empty(t, list.GetReservations(), "those of others are not shown")
		list, err = c.calendar(at).ListReservations(c.ctx("t2", "", status.KeyOperator, "1"), &v1.ListReservationsRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetReservations(), 1, "except to operators")
		for _, name := range []string{"paper", "zzz"} {
			_, err = c.calendar(at).DeleteReservation(c.ctx("t2", ""), &v1.DeleteReservationRequest{Name: name})
			requireCode(t, codes.NotFound, err)
			require.ErrorContains(t, err, fmt.Sprintf("there is no %q", name))
		}
		for tenant, sees := range map[string][]string{"t1": {"paper"}, "t2": nil} {
			ctx, cancel := context.WithCancel(c.ctx(tenant, ""))
			stream, err := v1.NewEventServiceClient(c.members[at].conn).WatchEvents(ctx, &v1.WatchEventsRequest{Topics: []string{"window"}, SinceIndex: proto.Uint64(0)})
			require.NoError(t, err)
			var told []string
			for len(told) < len(sees) || sees == nil {
				resp, err := stream.Recv()
				require.NoError(t, err)
				for _, e := range resp.GetEvents() {
					told = append(told, e.GetName())
				}
				if len(resp.GetEvents()) == 0 {
					break // an empty message after all existing events
				}
			}
			cancel()
			require.Equal(t, sees, slices.Compact(told), tenant)
		}
		for field, bad := range map[string]*v1.PutReservationRequest{
			"name": {Name: "Paper", Gpus: 1, DurationSeconds: 1}, "gpus": {Name: "a", DurationSeconds: 1}, "duration_seconds": {Name: "a", Gpus: 1},
		} {
			_, err = c.calendar(at).PutReservation(c.ctx("t1", ""), bad)
			requireCode(t, codes.InvalidArgument, err)
			require.ErrorContains(t, err, field)
		}
		_, err = c.calendar(at).DeleteReservation(c.ctx("t1", ""), &v1.DeleteReservationRequest{Name: "paper"})
		require.NoError(t, err)
	})
}
