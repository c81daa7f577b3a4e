package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// The time of the state stands still while nothing is written. GPUs are used all the same.
func TestQuota_hoursGoOnWhileNothingHappens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		c.agent("n1", 2)
		at := c.leader()
		id := c.submit(at, sleeper(2, 0))
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		time.Sleep(2 * time.Minute)
		got, err := c.quotas(at).GetQuota(c.ctx("t1", ""), &v1.GetQuotaRequest{TenantId: "t1"})
		require.NoError(t, err)
		require.InDelta(t, 2*120.0/3600, got.GetQuota().GetGpuHours(), 0.01)
	})
}
