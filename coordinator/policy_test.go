package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestCluster_policy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		got, err := c.nodes(at).GetPolicy(c.ctx("t1", ""), &v1.GetPolicyRequest{})
		require.NoError(t, err)
		require.Equal(t, "ATTAINED", got.GetPolicy().GetOrder())
		require.EqualValues(t, 7*24*3600, got.GetPolicy().GetHalfLifeSeconds())
		require.Zero(t, got.GetPolicy().GetRevision())
		require.EqualValues(t, 250_000, got.GetPolicy().GetKeepFinished())
		require.EqualValues(t, 7*24*3600, got.GetPolicy().GetKeepSpecsSeconds())
		require.EqualValues(t, 10, got.GetPolicy().GetHoursGracePercent())

		put, err := c.nodes(at).PutPolicy(c.ctx("t1", ""), &v1.PutPolicyRequest{Policy: &v1.Policy{
			Order: proto.String("FIFO"), Preemption: &v1.PreemptionPolicy{Ratio: proto.Int32(8)},
		}})
		require.NoError(t, err)
		require.Equal(t, "order ATTAINED -> FIFO, preemption.ratio 4 -> 8", put.GetChanged())
		require.EqualValues(t, 7*24*3600, put.GetPolicy().GetHalfLifeSeconds(), "what is left out stays")
		require.NotZero(t, put.GetPolicy().GetRevision())
		require.Empty(t, put.GetPolicy().GetUpdatedBy(), "for operators only")

		put, err = c.nodes(at).PutPolicy(c.ctx("t1", ""), &v1.PutPolicyRequest{Policy: &v1.Policy{
			KeepFinished: proto.Int32(5000), KeepSpecsSeconds: proto.Int32(86_400),
		}})
		require.NoError(t, err)
		require.Equal(t, "keep_finished the default -> 5000, keep_specs_seconds 604800 -> 86400", put.GetChanged())
		require.EqualValues(t, 5000, put.GetPolicy().GetKeepFinished())
		require.EqualValues(t, 86_400, put.GetPolicy().GetKeepSpecsSeconds())

		for _, bad := range []*v1.Policy{
			{Order: proto.String("random")},
			{HalfLifeSeconds: proto.Int32(1)},
			{Preemption: &v1.PreemptionPolicy{Ratio: proto.Int32(-1)}},
			{KeepFinished: proto.Int32(0)},
			{KeepSpecsSeconds: proto.Int32(0)},
			{KeepFinished: proto.Int32(99)},
		} {
			_, err = c.nodes(at).PutPolicy(c.ctx("t1", ""), &v1.PutPolicyRequest{Policy: bad})
			requireCode(t, codes.InvalidArgument, err)
		}
		_, err = c.nodes(at).PutPolicy(c.ctx("t1", ""), &v1.PutPolicyRequest{Policy: &v1.Policy{AgingStepSeconds: proto.Int32(-5)}})
		require.ErrorContains(t, err, "aging_step_seconds is -5: use 60 to 31536000, or 0 for none")
		again, err := c.nodes("c1").GetPolicy(c.ctx("t1", ""), &v1.GetPolicyRequest{})
		require.NoError(t, err)
		require.True(t, proto.Equal(put.GetPolicy(), again.GetPolicy()))
	})
}
