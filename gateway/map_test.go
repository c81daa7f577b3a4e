package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A map of 10,000 GPUs is less than 100 KB, before it is compressed.
func TestClusterMap_isCompact(t *testing.T) {
	c := newScripted(t)
	c.on("GetClusterMap", func(context.Context, any) (any, error) {
		reply := &v1.GetClusterMapResponse{}
		for i := range 1250 {
			reply.NodeIds = append(reply.NodeIds, fmt.Sprintf("gpu-node-%04d", i))
			reply.States = append(reply.States, v1.NodeState_UNREACHABLE)
			reply.GpuTypes = append(reply.GpuTypes, "H100")
			reply.Domains = append(reply.Domains, fmt.Sprintf("rack-%02d", i/16))
			reply.Gpus = append(reply.Gpus, strings.Repeat("m", 8))
			reply.Utilization = append(reply.Utilization, strings.Repeat("9", 8))
		}
		return reply, nil
	})
	a := newGate(t, testConfig(c)).do("GET", prefix+"/cluster/map", "")
	require.Equal(t, 200, a.code)
	require.Less(t, len(a.body), 100_000)
}
