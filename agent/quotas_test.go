package agent

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/isolation"
	"github.com/mindcoordinator/mind/agent/isolation/disk/quotatest"
)

// A job that fills its part of the disk is refused more, and its end says so. The next job has its own part.
func TestDiskOfAJob(t *testing.T) {
	dir := quotatest.Dir(t)
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.DataDir, cfg.JobDiskMB, cfg.Isolation, cfg.Metrics = dir, 8, string(isolation.Cgroup), prometheus.NewRegistry()
	t.Cleanup(func() { stopShims(t, dir) })
	inProcess(t, cfg)
	for _, target := range []string{"$MIND_OUTPUT_DIR/big", "$MIND_CHECKPOINT_DIR/big", "$MIND_METRICS_FILE"} {
		o := order("sh", "-c", "said=$(dd if=/dev/zero bs=1M count=20 of="+target+" 2>&1); ended=$?; echo \"$said\" | grep -i -e quota -e space >&2; exit $ended")
		l.want(o)
		end := l.ended(o.GetTask())
		require.NotZero(t, end.GetExitCode())
		require.Regexp(t, "uota exceeded; |No space left on device; ", end.GetErrorMessage())
		require.Contains(t, end.GetErrorMessage(), "; the outputs and checkpoints of the job take 8 MiB on node n1, and may take 8 MiB (job_disk_mb of the agent)")
	}
	o := order("sh", "-c", "dd if=/dev/zero bs=1M count=5 of=$MIND_OUTPUT_DIR/file 2> /dev/null; exit 3")
	l.want(o)
	require.Equal(t, "exited with code 3", l.ended(o.GetTask()).GetErrorMessage())
	families, err := cfg.Metrics.Gather()
	require.NoError(t, err)
	counted := -1.0
	for _, f := range families {
		if f.GetName() == "mind_agent_disk_quota_failures_total" {
			counted = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.InDelta(t, 3, counted, 0)
}

// A quota that cannot hold is no quota.
func TestDiskOfAJob_refused(t *testing.T) {
	cfg := testConfig(t, newLeader(t))
	cfg.DataDir, cfg.JobDiskMB, cfg.Isolation = t.TempDir(), 8, string(isolation.None)
	_, _, err := open(context.Background(), cfg.withDefaults())
	require.ErrorContains(t, err, "job_disk_mb needs isolation or users")
	cfg.JobDiskMB = -1
	require.ErrorContains(t, cfg.Validate(), "job_disk_mb is negative")
}
