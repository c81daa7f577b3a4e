package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/simulate/trace"
)

// with returns a cluster of one node of eight GPUs with a window from one hour after the begin to the next.
func with(t *testing.T, kind windows.Kind, tenant string) Cluster {
	on := shared(t, 1, 8)
	on.Begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	from := on.Begin.Add(time.Hour).UnixNano()
	on.Windows = []*windows.Window{{Name: "w", Kind: kind, Tenant: tenant, From: from, Until: from + int64(time.Hour), Nodes: []string{"n000"}}}
	return on
}

// A job that may be preempted starts before the maintenance. It has worked for an hour when its node is drained, goes on at its end
// after a restart, and works for the half hour that is left. One that may not be preempted waits until the maintenance is over.
func TestRun_maintenance(t *testing.T) {
	yields, stays := of("yields", "default", 4, 0, 90*time.Minute), of("stays", "default", 4, 0, 90*time.Minute)
	stays.Preemptible = false
	r := runOn(t, with(t, windows.Maintenance, ""), []trace.Job{yields, stays}, named(t, "fifo"))
	began, ended := starts(r)
	require.Equal(t, []time.Duration{2 * time.Hour, 2 * time.Hour}, began)
	require.Equal(t, []time.Duration{2*time.Hour + 35*time.Minute, 3*time.Hour + 30*time.Minute}, ended)
	m := r.measures()
	require.Equal(t, (65.0+120)*60/2, m.WaitMeanSeconds)
	require.Equal(t, 1, m.Preemptions)
	require.Equal(t, 300.0*4, m.PreemptionCostGPUSeconds)
}

// A job whose time limit ends before the maintenance starts at once, and one whose limit is longer waits.
func TestRun_limitsBeforeAMaintenance(t *testing.T) {
	short, long := of("short", "default", 4, 0, 30*time.Minute), of("long", "default", 4, 0, 30*time.Minute)
	short.Preemptible, long.Preemptible = false, false
	short.Limit, long.Limit = 32*time.Minute, 5*time.Hour
	policy := named(t, "fifo")
	began, _ := starts(runOn(t, with(t, windows.Maintenance, ""), []trace.Job{short, long}, policy))
	require.Equal(t, []time.Duration{0, 2 * time.Hour}, began)
}

// A maintenance that nobody knew of yet keeps nothing off: the job starts, and is stopped by it.
func TestRun_aMaintenanceIsKnownFromWhenItWasCreated(t *testing.T) {
	on := with(t, windows.Maintenance, "")
	on.Windows[0].CreatedAt = on.Begin.Add(10 * time.Minute).UnixNano()
	first, second := of("first", "default", 4, 0, 90*time.Minute), of("second", "default", 4, 20*time.Minute, 90*time.Minute)
	first.Preemptible, second.Preemptible = false, false
	r := runOn(t, on, []trace.Job{first, second}, named(t, "fifo"))
	began, ended := starts(r)
	require.Len(t, r.jobs[0].row.Past, 1)
	require.Equal(t, 2*time.Hour+35*time.Minute, ended[0])
	require.Equal(t, 2*time.Hour, began[1])
	require.Empty(t, r.jobs[1].row.Past)
}

// The tenant of a reservation gets its nodes when it begins; a job of another one that may be preempted leaves, and one that may not
// waits from the beginning.
func TestRun_reservation(t *testing.T) {
	guest, owner, other := of("guest", "default", 8, 0, 3*time.Hour), of("owner", "default", 8, time.Hour, 30*time.Minute), of("other", "default", 8, 65*time.Minute, time.Hour)
	other.Preemptible = false
	r := runOn(t, with(t, windows.Reservation, "owner"), []trace.Job{guest, owner, other}, named(t, "fifo"))
	began, ended := starts(r)
	require.Equal(t, time.Hour, began[1])
	require.Equal(t, 90*time.Minute, ended[1])
	require.GreaterOrEqual(t, min(began[0], began[2]), 2*time.Hour, "the half hour that is left is the owner's")
	require.Equal(t, 1, r.measures().Preemptions)
	require.Equal(t, 2*time.Hour, min(began[0], began[2]))
}

// Windows that are over, or begin when all is done, change nothing.
func TestRun_windowsOfOtherTimes(t *testing.T) {
	on := with(t, windows.Maintenance, "")
	jobs := []trace.Job{of("a", "default", 8, 4*time.Hour, time.Hour)}
	require.Zero(t, runOn(t, on, jobs, named(t, "fifo")).measures().WaitMeanSeconds)
	on.Windows[0].From += int64(100 * time.Hour)
	on.Windows[0].Until += int64(100 * time.Hour)
	r := runOn(t, on, jobs, named(t, "fifo"))
	require.Zero(t, r.measures().WaitMeanSeconds)
	require.Equal(t, 5*time.Hour, time.Duration(r.cluster.now-r.origin))
}
