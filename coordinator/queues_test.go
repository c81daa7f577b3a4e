package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestCluster_queues(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		at := c.follower()
		made, err := c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "research", Weight: 1, MaxGpus: 4})
		require.NoError(t, err)
		require.EqualValues(t, 4, made.GetQueue().GetMaxGpus())
		for _, name := range []string{"", "Upper", "a b", "-x", "x/", "ü"} {
			_, err := c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: name})
			requireCode(t, codes.InvalidArgument, err)
		}
		for _, weight := range []int32{-1, 2, 3} {
			_, err = c.nodes(at).PutQueue(c.ctx("t1", ""), &v1.PutQueueRequest{Name: "x", Weight: weight})
			requireCode(t, codes.InvalidArgument, err)
			require.ErrorContains(t, err, "weight: ")
			require.ErrorContains(t, err, "have no effect in this version")
		}
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
