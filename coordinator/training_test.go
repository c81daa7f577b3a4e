package coordinator

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// ReadTraining answers like an agent whose node has no Python. The node "slow" takes longer than callers wait.
func (a *scriptedAgent) ReadTraining(ctx context.Context, _ *v1.ReadTrainingRequest) (*v1.ReadTrainingResponse, error) {
	if a.hello.GetNodeId() == "slow" {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &v1.ReadTrainingResponse{Training: &v1.NodeTraining{NodeId: "another", Problem: "node n1 has no python3"}}, nil
}

func TestCluster_aNodeSaysWhatItCanTrain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		c.agent("n1", 8)
		ask := func(node string) (*v1.GetNodeTrainingResponse, error) {
			return c.nodes("c1").GetNodeTraining(c.ctx("t1", ""), &v1.GetNodeTrainingRequest{NodeId: node})
		}
		got, err := ask("n1")
		require.NoError(t, err)
		require.Equal(t, "node n1 has no python3", got.GetTraining().GetProblem())
		require.Equal(t, "n1", got.GetTraining().GetNodeId())
		c.agent("slow", 8)
		got, err = ask("slow")
		require.NoError(t, err, "that it takes long is an answer")
		require.True(t, got.GetTraining().GetPending())
		require.Contains(t, got.GetTraining().GetProblem(), "ask again")
		_, err = ask("n2")
		requireCode(t, codes.NotFound, err)
	})
}
