package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// StreamTaskTunnel answers each input with its bytes, on stdout.
func (a *scriptedAgent) StreamTaskTunnel(stream v1.TaskService_StreamTaskTunnelServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.tunnels = append(a.tunnels, first)
	a.mu.Unlock()
	out := &v1.TunnelOutput{Ready: &v1.TunnelReady{NodeId: "n", Attempt: first.GetOpening().GetAttempt()}}
	for {
		if err := stream.Send(&v1.StreamTaskTunnelResponse{Output: out}); err != nil {
			return err
		}
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		out = &v1.TunnelOutput{Bytes: m.GetInput().GetBytes()}
	}
}

// tunnel opens a tunnel, and returns its first answer.
func (c *cluster) tunnel(tenant, at string, o *v1.TunnelOpening) (v1.JobService_StreamJobTunnelClient, *v1.TunnelReady, error) {
	stream, err := c.jobs(at).StreamJobTunnel(c.ctx(tenant, ""))
	require.NoError(c.t, err)
	require.NoError(c.t, stream.Send(&v1.StreamJobTunnelRequest{Opening: o}))
	m, err := stream.Recv()
	return stream, m.GetOutput().GetReady(), err
}

func shellOf(id string) *v1.TunnelOpening {
	return &v1.TunnelOpening{TunnelId: "0123456789abcdef", JobId: id, Shell: &v1.TunnelShell{Command: []string{"bash", "-l"}}}
}

func TestTunnel_whoMayOpenOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		id := c.submit(c.ids[0], sleeper(1, 0))
		c.awaitStatus(c.ids[0], id, v1.JobStatus_TRAINING)
		follower := c.follower()
		stream, ready, err := c.tunnel("t1", follower, shellOf(id))
		require.NoError(t, err)
		require.EqualValues(t, 1, ready.GetAttempt())
		require.NoError(t, stream.Send(&v1.StreamJobTunnelRequest{Input: &v1.TunnelInput{Bytes: &v1.TunnelBytes{Data: []byte("hello")}}}))
		m, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, "hello", string(m.GetOutput().GetBytes().GetData()))
		require.Equal(t, "t1", a.tunnels[0].GetTenantId())

		records, err := c.auditLog(follower).ListAuditRecords(c.ctx("t1", ""), &v1.ListAuditRecordsRequest{Action: "job.tunnel"})
		require.NoError(t, err)
		require.Len(t, records.GetRecords(), 1)
		require.Equal(t, id, records.GetRecords()[0].GetObject())
		require.Equal(t, "rank 0: bash -l", records.GetRecords()[0].GetMessage())

		refused := func(tenant string, o *v1.TunnelOpening, code codes.Code, why string) {
			t.Helper()
			_, _, err := c.tunnel(tenant, follower, o)
			require.Equal(t, code, grpcstatus.Code(err), "%v", err)
			require.ErrorContains(t, err, why)
		}
		refused("t2", shellOf(id), codes.NotFound, "there is no job")
		resumed := shellOf(id)
		resumed.Resume, resumed.Attempt = true, 1
		refused("t2", resumed, codes.NotFound, "there is no job")
		other := shellOf(id)
		other.Rank = 1
		refused("t1", other, codes.FailedPrecondition, "has no rank 1: it has 1 task")
		waiting := c.submit(c.ids[0], patient(sleeper(8, 0)))
		refused("t1", shellOf(waiting), codes.FailedPrecondition, "does not run")
		a.end(id, 0)
		c.awaitStatus(c.ids[0], id, v1.JobStatus_COMPLETED)
		refused("t1", shellOf(id), codes.FailedPrecondition, "does not run: its status is COMPLETED")
		require.Len(t, a.tunnels, 1, "the agent hears of none that is refused")
	})
}

// A tunnel that is open needs no leader: any coordinator that is left relays it.
func TestTunnel_goesOnWithoutALeader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		id := c.submit(c.ids[0], sleeper(1, 0))
		c.awaitStatus(c.ids[0], id, v1.JobStatus_TRAINING)
		leader, last := c.leader(), c.follower()
		stream, ready, err := c.tunnel("t1", leader, shellOf(id))
		require.NoError(t, err)
		for _, member := range c.ids {
			if member != last {
				c.kill(member)
			}
		}
		_, err = stream.Recv()
		require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "%v", err)
		resumed := shellOf(id)
		resumed.Resume, resumed.Attempt, resumed.StdoutReceived = true, ready.GetAttempt(), 17
		_, _, err = c.tunnel("t1", last, resumed)
		require.NoError(t, err)
		require.EqualValues(t, 17, a.tunnels[1].GetOpening().GetStdoutReceived())
	})
}
