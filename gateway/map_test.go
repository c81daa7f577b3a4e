package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// A map of 10,000 GPUs is less than 100 KB, before it is compressed.
func TestClusterMap_isCompact(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	c.On("GetClusterMap", func(context.Context, any) (any, error) {
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
	a := gatewaytest.NewGate(t, gatewaytest.Config(c)).Do("GET", rest.Prefix+"/cluster/map", "")
	require.Equal(t, 200, a.Code)
	require.Less(t, len(a.Body), 100_000)
}
