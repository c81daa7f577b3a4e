package simulate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// TestRun_philly compares the simulation with the reference simulators that the trace was published with: with first
// in, first out, where jobs that do not fit are skipped, jobs wait 139.8 minutes on average there.
func TestRun_philly(t *testing.T) {
	nodes, jobs := philly(t)
	for name, waits := range map[string]struct{ mean, p99, longest float64 }{
		"fifo":       {142, 1400, 10080},
		"attained":   {70, 1344, 10080},
		"preemptive": {70, 1344, 10080},
	} {
		t.Run(name, func(t *testing.T) {
			policy, _ := Policy(name)
			r := newRun(Cluster{Nodes: nodes}, jobs, policy)
			r.cluster.blind = name == "fifo" // best fit, as in the reference simulator
			require.NoError(t, r.all(context.Background(), func(int) {}))
			m := r.measures()
			t.Logf("%+v", m)
			require.Less(t, m.WaitMeanSeconds/60, waits.mean)
			require.Less(t, m.WaitP99Seconds/60, waits.p99)
			require.Less(t, m.WaitMaxSeconds/60, waits.longest)
			if name == "fifo" {
				require.InDelta(t, 139.8, m.WaitMeanSeconds/60, 2)
				require.InDelta(t, 0.798, m.Utilisation, 0.005)
			}
		})
	}
}

// philly reads the trace from the folder in MIND_TRACES.
func philly(t *testing.T) ([]*work.Node, []trace.Job) {
	t.Helper()
	dir := os.Getenv("MIND_TRACES")
	if dir == "" {
		t.Skip("MIND_TRACES is not set: it is the folder with philly/philly_jobs.csv")
	}
	f, err := os.Open(filepath.Join(dir, "philly", "philly_jobs.csv"))
	require.NoError(t, err)
	defer f.Close()
	jobs, err := trace.Philly(f)
	require.NoError(t, err)
	var nodes []*work.Node
	for i := range 140 {
		n, err := trace.Node(fmt.Sprintf("n%03d", i), 8, "GPU", 0, 0)
		require.NoError(t, err)
		nodes = append(nodes, n)
	}
	return nodes, jobs
}
