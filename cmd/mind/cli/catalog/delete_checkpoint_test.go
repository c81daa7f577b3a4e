package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

func TestCheckpointDelete_goesOnAfterARefusal(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("DELETE /checkpoints/ckpt_1", clitest.Answer(200, `{"checkpoint_id":"ckpt_1"}`))
	g.On("DELETE /checkpoints/ckpt_2", clitest.Refuse(409, "CONFLICT", "job_1 goes on from it"))
	require.Equal(t, "ckpt_1 deleted\n", clitest.Done(t, "checkpoint", "delete", "ckpt_1"))
	stdout, stderr, code := clitest.Run(t, "checkpoint", "delete", "ckpt_2", "ckpt_1", "-o", "json")
	require.Equal(t, 1, code)
	require.JSONEq(t, `{"deleted":["ckpt_1"]}`, stdout)
	require.Equal(t, "mind: ckpt_2: job_1 goes on from it\n", stderr)
	require.Contains(t, clitest.Fails(t, "checkpoint", "delete", "ckpt_2"), "job_1 goes on from it")
}
