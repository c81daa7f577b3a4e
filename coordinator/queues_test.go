package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestCluster_queues(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		made, err := c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "research", Weight: proto.Int32(1), MaxGpus: 4})
		require.NoError(t, err)
		require.EqualValues(t, 4, made.GetQueue().GetMaxGpus())
		for _, name := range []string{"", "Upper", "a b", "-x", "x/", "ü"} {
			_, err := c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: name})
			requireCode(t, codes.InvalidArgument, err)
		}
		for _, weight := range []int32{-1, 0, 1_000_001} {
			_, err = c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "x", Weight: proto.Int32(weight)})
			requireCode(t, codes.InvalidArgument, err)
			require.ErrorContains(t, err, "weight: must be 1 to 1000000")
		}
		below, err := c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "vision", Parent: "research", Weight: proto.Int32(3)})
		require.NoError(t, err)
		require.Equal(t, "research", below.GetQueue().GetParent())
		require.InDelta(t, 50, below.GetQueue().GetSharePercent(), 0.01, "beside the default queue")
		_, err = c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "research", Parent: "vision"})
		requireCode(t, codes.FailedPrecondition, err)
		require.ErrorContains(t, err, `the queue "research" cannot be a part of "vision", which is a part of it`)
		big := sleeper(8, 0)
		big.SchedulingConfig = &v1.SchedulingConfig{Queue: "vision"}
		_, err = c.jobs(at).SubmitJob(c.ctx("t1", ""), big)
		requireCode(t, codes.InvalidArgument, err)
		require.ErrorContains(t, err, "scheduling_config.queue: ")
		_, err = c.nodes(at).DeleteQueue(c.ctx("t1", ""), &v1.DeleteQueueRequest{Name: "research"})
		require.ErrorContains(t, err, `the parent of "vision"`)
		_, err = c.nodes(at).DeleteQueue(c.ctx("t1", ""), &v1.DeleteQueueRequest{Name: "vision"})
		require.NoError(t, err)
		in := sleeper(0, 0)
		in.SchedulingConfig = &v1.SchedulingConfig{Queue: "research"}
		id := c.submit(at, in)
		_, err = c.nodes(at).DeleteQueue(c.ctx("t1", ""), &v1.DeleteQueueRequest{Name: "research"})
		requireCode(t, codes.FailedPrecondition, err)
		_, err = c.jobs(at).CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: id})
		require.NoError(t, err)
		_, err = c.nodes(at).DeleteQueue(c.ctx("t1", ""), &v1.DeleteQueueRequest{Name: "research"})
		require.NoError(t, err)
		_, err = c.nodes(at).DeleteQueue(c.ctx("t1", ""), &v1.DeleteQueueRequest{Name: "research"})
		requireCode(t, codes.NotFound, err)
		_, err = c.nodes(at).DeleteQueue(c.ctx("t1", ""), &v1.DeleteQueueRequest{Name: "default"})
		requireCode(t, codes.FailedPrecondition, err)
		_, err = c.jobs(at).GetCheckpoint(c.ctx("t1", ""), &v1.GetCheckpointRequest{CheckpointId: "ckpt_1"})
		requireCode(t, codes.NotFound, err)
		_, err = c.jobs(at).DeleteCheckpoint(c.ctx("t1", ""), &v1.DeleteCheckpointRequest{CheckpointId: "x"})
		requireCode(t, codes.NotFound, err)
	})
}
