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
