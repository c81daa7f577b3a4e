package whatif_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
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

// A supposed change does, when it is made, as Try said: a random cluster with limits by type, maintenances and reservations is asked, then
// changed as supposed, and planned.
func TestTry_whatIsSaidComesTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		c.node("n0", "H100", 4, nil) // so each job could run one day
		for i := range rapid.IntRange(0, 2).Draw(t, "more nodes") {
			c.node(fmt.Sprintf("n%d", 1+i), rapid.SampledFrom([]string{"H100", "A100"}).Draw(t, "kind"), 4, nil)
		}
		most := func(label string) typed.Limits {
			return typed.Limits{{Type: "H100", GPUs: int32(rapid.IntRange(4, 8).Draw(t, label))}}
		}
		if rapid.Bool().Draw(t, "quota by type") {
			c.apply(queueverbs.PutQuota{Tenant: "t", MaxByType: most("of the tenant")})
		}
		if rapid.Bool().Draw(t, "queue by type") {
			c.apply(queueverbs.PutQueue{Queue: work.Queue{Name: work.DefaultQueue, Weight: 1, MaxByType: most("of the queue")}})
		}
		draw := func() jobverbs.NewJob {
			j := newJob(work.Shape{
				GPUs: uint16(rapid.IntRange(1, 4).Draw(t, "gpus")), GPUType: rapid.SampledFrom([]string{"", "H100"}).Draw(t, "type"),
			}, 5)
			j.MaxRuntime = int64(rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "limit"))
			return j
		}
		for range rapid.IntRange(0, 3).Draw(t, "others") {
			j := draw()
			j.Tenant = rapid.SampledFrom([]string{"t", "other"}).Draw(t, "tenant")
			c.submit(j)
		}
		c.plan()
		now := c.machine.View().Now()
		if rapid.Bool().Draw(t, "maintenance") {
			from := now + int64(rapid.SampledFrom([]time.Duration{5 * time.Minute, 3 * time.Hour}).Draw(t, "begins in"))
			c.apply(windowverbs.PutWindow{Name: "m", Kind: windows.Maintenance, Patterns: []string{"n0"}, From: from, Until: from + int64(time.Hour)})
		}
		if rapid.Bool().Draw(t, "reservation") {
			c.apply(windowverbs.PutWindow{
				Name: "r", Kind: windows.Reservation, Tenant: rapid.SampledFrom([]string{"t", "other"}).Draw(t, "of"), GPUs: 4,
				From: now + int64(10*time.Minute), Until: now + int64(time.Hour),
			})
		}
		waits := c.submit(draw())
		c.plan()
		if !c.get(waits).Waiting() {
			return
		}
		var suppose []string
		does := func() ident.Job { return waits }
		switch rapid.SampledFrom([]string{"nothing", "limit", "gpus", "cancel"}).Draw(t, "supposed") {
		case "limit", "gpus":
			other := newJob(c.get(waits).Shape, 5)
			other.Shape.GPUs = uint16(rapid.IntRange(1, 4).Draw(t, "other gpus"))
			other.MaxRuntime = int64(rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "other limit"))
			suppose = []string{fmt.Sprintf("gpus=%d", other.Shape.GPUs), fmt.Sprintf("max_runtime=%d", other.MaxRuntime/int64(time.Second))}
			does = func() ident.Job { return c.submit(other) }
		case "cancel":
			for j := range c.machine.View().ActiveJobs() {
				if j.Tenant == "t" && j.Live() && j.ID != waits {
					suppose = []string{"cancel=" + j.ID.String()}
					does = func() ident.Job { c.end(j.ID); return waits }
				}
			}
		}
		said := c.try(waits, suppose...)
		id := does()
		require.Equal(t, slices.Contains(c.plan(), id), said.Starts() && said.Preempts == 0, "%v", suppose)
	})
}
