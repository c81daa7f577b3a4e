package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// All replicas have the same state, and only the leader reports it.
func TestMetrics_whoDoesNotLeadTellsNothingOfTheState(t *testing.T) {
	machine := fsm.New()
	command, err := kernel.Encode(level.Newest, nodeverbs.RegisterNode{Node: work.Node{ID: "n1", GPUs: []work.GPU{{UUID: "GPU-1", Model: "H100"}}}})
	require.NoError(t, err)
	machine.Apply(1, kernel.Pack(level.Newest, time.Now(), [][]byte{command}))
	leads := false
	reg := prometheus.NewRegistry()
	reg.MustRegister(&stateCollector{machine: machine, leading: func() bool { return leads }})
	told := func() (names []string) {
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			names = append(names, f.GetName())
		}
		return names
	}
	require.Equal(t, []string{"mind_feature_level", "mind_log_time_ahead_seconds"}, told(), "a clock is each replica's own")
	leads = true
	require.Equal(t, []string{"mind_checkpoint_archive_bytes", "mind_checkpoints", "mind_decisions", "mind_executions", "mind_feature_level", "mind_gpus", "mind_jobs", "mind_leases", "mind_log_time_ahead_seconds", "mind_nodes"}, told())
	leads = false
	require.Equal(t, []string{"mind_feature_level", "mind_log_time_ahead_seconds"}, told(), "its series end with its term")
}
