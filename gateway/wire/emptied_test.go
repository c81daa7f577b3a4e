package wire

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A field that is given as 0 or empty is taken away. One that is null, or not there, stays.
func TestEmptied_areListed(t *testing.T) {
	for body, want := range map[string][]string{
		`{"resource_config":{"gpu_type":"","node_selector":{},"gpu_count":2,"cpu_count":null,"memory_mb":0,"exclude_nodes":[]}}`: {"gpu_type", "memory_mb", "node_selector", "exclude_nodes"},
		`{"scheduling_config":{"retry_on":[],"priority":0,"allow_pending_capacity":false},"resource_config":{}}`:                 {"retry_on"},
		`{"resource_config":null,"labels":{}}`: nil,
		`{"name":"x"}`:                         nil,
	} {
		request := &v1.UpdateJobRequest{}
		faults, _ := Decode([]byte(body), request)
		require.Empty(t, faults)
		require.Equal(t, want, request.GetTakenAway(), body)
	}
	faults, _ := Decode([]byte(`{"taken_away":["gpu_type"]}`), &v1.UpdateJobRequest{})
	require.Equal(t, "unknown field", faults[0].Message)
	retry := &v1.RetryJobRequest{}
	_, _ = Decode([]byte(`{"modify_resources":{"gpu_count":0}}`), retry)
	require.Equal(t, []string{"gpu_count"}, retry.GetTakenAway())
}
