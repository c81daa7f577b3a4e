package whatif_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler/whatif"
)

// A job with a shorter time limit is over before a maintenance begins. It starts when it is submitted so, and Try says so.
func TestTry_shorterThanAWindow(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "H100", 8, nil)
	now := c.machine.View().Now()
	c.apply(windowverbs.PutWindow{Name: "kernel", Kind: windows.Maintenance, Patterns: []string{"n1"}, From: now + int64(10*time.Minute), Until: now + int64(time.Hour)})
	waits := c.submit(newJob(work.Shape{GPUs: 2}, 5))
	require.Empty(t, c.plan())

	require.Equal(t, []string{"n1"}, c.try(waits, "max_runtime=120").Nodes)
	a := c.try(waits, "max_runtime=2h")
	require.Empty(t, a.Nodes)
	require.Contains(t, a.Why.String(), "NodesKept(")

	short := newJob(work.Shape{GPUs: 2}, 5)
	short.MaxRuntime = int64(2 * time.Minute)
	id := c.submit(short)
	require.Contains(t, c.plan(), id)
}

// A canceled job gives back its GPUs to the limits by type of its tenant and its queue.
func TestTry_cancelUnderLimitsByType(t *testing.T) {
	for name, limit := range map[string]func(c *cluster){
		"quota": func(c *cluster) {
			c.apply(queueverbs.PutQuota{Tenant: "t", MaxByType: typed.Limits{{Type: "H100", GPUs: 2}}})
		},
		"queue": func(c *cluster) {
			c.apply(queueverbs.PutQueue{Queue: work.Queue{Name: work.DefaultQueue, Weight: 1, MaxByType: typed.Limits{{Type: "H100", GPUs: 2}}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.node("n1", "H100", 8, nil)
			limit(c)
			runs := c.submit(newJob(work.Shape{GPUs: 2}, 5))
			require.Len(t, c.plan(), 1)
			waits := c.submit(newJob(work.Shape{GPUs: 2}, 5))
			require.Empty(t, c.plan())
			require.Empty(t, c.try(waits).Nodes)
			require.Equal(t, []string{"n1"}, c.try(waits, "cancel="+runs.String()).Nodes)
		})
	}
}

// The nodes that are reserved for a tenant are its own also under a supposed change.
func TestTry_ofATenantWithAReservation(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "H100", 8, nil)
	now := c.machine.View().Now()
	c.apply(windowverbs.PutWindow{Name: "paper", Kind: windows.Reservation, Tenant: "t", GPUs: 8, From: now, Until: now + int64(time.Hour)})
	c.now = c.now.Add(time.Minute)
	c.submit(newJob(work.Shape{GPUs: 6}, 5))
	require.Len(t, c.plan(), 1)
	waits := c.submit(newJob(work.Shape{GPUs: 4}, 5))
	require.Empty(t, c.plan())
	require.Equal(t, []string{"n1"}, c.try(waits, "gpus=2").Nodes)
}

// protects has the policy protect running jobs from a higher priority for two hours.
func protects(c *cluster) {
	p := c.machine.View().Policy()
	base := p.Revision
	p.Preemption.ProtectFromPriority = int64(2 * time.Hour)
	require.Nil(c.t, c.apply(queueverbs.PutPolicy{Policy: p, Base: base}).(queueverbs.PolicyResult).Refusal)
}

// For each limit, window and protection that alone keeps a job there is a remedy, and it is an operator's.
func TestRemedies_ofLimitsWindowsAndProtection(t *testing.T) {
	quota := func(q queueverbs.PutQuota) func(*cluster) {
		return func(c *cluster) { q.Tenant = "t"; c.apply(q) }
	}
	window := func(w windowverbs.PutWindow) func(*cluster) {
		return func(c *cluster) {
			w.From = c.machine.View().Now() + int64(10*time.Minute)
			w.Until = w.From + int64(time.Hour)
			require.Nil(t, c.apply(w).(windowverbs.WindowResult).Refusal)
		}
	}
	one := int32(1)
	for name, x := range map[string]struct {
		running int // GPUs of a job that runs
		bars    func(*cluster)
		remedy  string
	}{
		"quota by type": {2, quota(queueverbs.PutQuota{MaxByType: typed.Limits{{Type: "H100", GPUs: 3}}}), "quota.max_gpus_by_type=H100=4"},
		"GPU hours":     {4, quota(queueverbs.PutQuota{MaxGPUHours: &one}), "quota.max_gpu_hours=2"},
		"limit of a queue": {2, func(c *cluster) {
			c.apply(queueverbs.PutQueue{Queue: work.Queue{Name: work.DefaultQueue, Weight: 1, MaxByType: typed.Limits{{Type: "H100", GPUs: 3}}}})
		}, "queue.max_gpus_by_type=none"},
		"maintenance": {2, window(windowverbs.PutWindow{Name: "m", Kind: windows.Maintenance, Patterns: []string{"n1"}}), "maintenance=none"},
		"reservation": {2, window(windowverbs.PutWindow{Name: "r", Kind: windows.Reservation, Tenant: "other", GPUs: 8}), "reservations=none"},
		"protection":  {8, protects, "protection=none"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.node("n1", "H100", 8, nil)
			runs := newJob(work.Shape{GPUs: uint16(x.running)}, 3)
			runs.Preemptible, runs.MaxRuntime = true, int64(4*time.Minute)
			runs.User = "other"
			c.submit(runs)
			require.Len(t, c.plan(), 1)
			c.now = c.now.Add(20 * time.Minute)
			x.bars(c)
			waits := c.submit(newJob(work.Shape{GPUs: 2}, 5))
			require.Empty(t, c.plan())
			require.Contains(t, c.remedies(waits), x.remedy)
			for _, r := range whatif.Remedies(c.machine.View(), c.get(waits), c.now) {
				require.Equal(t, r.String() == x.remedy, r.Operator, "%s", r.String())
			}
		})
	}
}

// In a queue with a guarantee the job gets back what others have borrowed, whatever its priority.
func TestTry_knowsGuarantees(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "H100", 4, nil)
	require.Nil(t, c.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "prod", Weight: 1, Guaranteed: 2}}).(queueverbs.QueueResult).Refusal)
	borrower := newJob(work.Shape{GPUs: 4}, 9)
	borrower.Preemptible = true
	c.submit(borrower)
	require.Len(t, c.plan(), 1)
	waits := c.submit(newJob(work.Shape{GPUs: 2}, 3))
	require.Empty(t, c.plan())
	require.False(t, c.try(waits).Starts())
	require.Equal(t, 1, c.try(waits, "queue=prod").Preempts)
}

// Of two jobs that need the same victim the more urgent one gets its places.
func TestTry_aMoreUrgentJobGetsTheVictim(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "H100", 4, nil)
	victim := newJob(work.Shape{GPUs: 4}, 1)
	victim.Preemptible = true
	c.submit(victim)
	require.Len(t, c.plan(), 1)
	c.now = c.now.Add(3 * time.Hour)
	urgent := newJob(work.Shape{GPUs: 4}, 8)
	urgent.Tenant = "other"
	c.submit(urgent)
	waits := c.submit(newJob(work.Shape{GPUs: 2}, 1))
	require.Empty(t, c.plan())
	require.False(t, c.try(waits, "priority=7").Starts())
	require.Equal(t, 1, c.try(waits, "priority=9").Preempts)
}
