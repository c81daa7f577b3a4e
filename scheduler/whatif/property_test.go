package whatif_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/preempt"
	"github.com/mindcoordinator/mind/scheduler/reserve"
	"github.com/mindcoordinator/mind/scheduler/whatif"
)

// A supposed change does, when it is made, as Try said: a random cluster is asked, then changed as supposed, and
// planned as the leader plans. The cluster has limits of all kinds, windows, guarantees, reserved starts and jobs that
// may be preempted.
func TestTry_whatIsSaidComesTrue(t *testing.T) {
	said := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		drawCluster(t, c)
		waits := c.submit(drawJob(t))
		c.plan()
		if rapid.Bool().Draw(t, "windows begin") {
			c.now = c.now.Add(15 * time.Minute)
			c.apply(clusterverbs.Tick{})
		}
		if rapid.Bool().Draw(t, "reserves") {
			c.reserve()
		}
		if !c.get(waits).Waiting() {
			return
		}
		suppose, do := drawChange(t, c, waits)
		supposed, err := whatif.Parse(suppose)
		require.NoError(t, err)
		v := c.machine.View()
		a, err := whatif.Try(v, c.get(waits), supposed, c.now, whatif.Prices(v))
		if err != nil {
			return // There is no such job.
		}
		if !do(a) {
			require.False(t, a.Starts(), "%v is refused", suppose)
			return
		}
		placed, claimed := c.leads(waits)
		require.Equal(t, placed, a.Starts() && a.Preempts == 0, "%v: %s", suppose, a.Why)
		require.Equal(t, claimed, a.Starts() && a.Preempts > 0, "%v: %s", suppose, a.Why)
		switch {
		case placed:
			said["starts"]++
		case claimed:
			said["preempts"]++
		default:
			said["waits"]++
		}
	})
	t.Log(said)
}

var (
	drawTenant = rapid.SampledFrom([]string{"t", "t", "other"})
	drawQueue  = rapid.SampledFrom([]string{work.DefaultQueue, "lab", "prod"})
	drawLimit  = rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, 5 * time.Hour})
)

func drawCluster(t *rapid.T, c *cluster) {
	p := c.machine.View().Policy()
	p.Preemption.ProtectFromPriority = int64(rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "protected"))
	p.Backfill.After = 0
	require.Nil(t, c.apply(queueverbs.PutPolicy{Policy: p}).(queueverbs.PolicyResult).Refusal)
	c.node("n0", "H100", 4, map[string]string{"disk": "fast"}) // so each job could run one day
	for i := range rapid.IntRange(0, 2).Draw(t, "more nodes") {
		c.node(fmt.Sprintf("n%d", 1+i), rapid.SampledFrom([]string{"H100", "A100"}).Draw(t, "kind"), 4, nil)
	}
	byType := func(label string) typed.Limits {
		if rapid.Bool().Draw(t, label) {
			return nil
		}
		return typed.Limits{{Type: "H100", GPUs: int32(rapid.IntRange(4, 8).Draw(t, label+" by type"))}}
	}
	for _, name := range []string{work.DefaultQueue, "lab", "prod"} {
		q := work.Queue{Name: name, Weight: 1, MaxByType: byType(name), MaxGPUs: uint32(rapid.SampledFrom([]int{0, 0, 4, 6}).Draw(t, "at most"))}
		if name == "prod" {
			q.Guaranteed = uint32(rapid.IntRange(0, 4).Draw(t, "guaranteed"))
		}
		require.Nil(t, c.apply(queueverbs.PutQueue{Queue: q}).(queueverbs.QueueResult).Refusal)
	}
	if rapid.Bool().Draw(t, "has a quota") {
		q := queueverbs.PutQuota{Tenant: "t", MaxByType: byType("quota")}
		limit := func(to **int32, least, most int, label string) {
			if rapid.Bool().Draw(t, label) {
				n := int32(rapid.IntRange(least, most).Draw(t, "so many"))
				*to = &n
			}
		}
		limit(&q.MaxGPUs, 4, 8, "of GPUs")
		limit(&q.MaxRunning, 1, 3, "of jobs")
		limit(&q.MaxGPUHours, 1, 9, "of hours")
		require.Nil(t, c.apply(q).(queueverbs.QuotaResult).Refusal)
	}
	for range rapid.IntRange(2, 7).Draw(t, "others") {
		c.submit(drawJob(t))
		if rapid.Bool().Draw(t, "planned") {
			c.plan()
		}
	}
	c.plan()
	c.now = c.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Minute, 3 * time.Hour}).Draw(t, "time passes"))
	now := c.now.UnixNano()
	if rapid.IntRange(0, 2).Draw(t, "maintenance") == 0 {
		from := now + int64(rapid.SampledFrom([]time.Duration{5 * time.Minute, 3 * time.Hour}).Draw(t, "begins in"))
		c.apply(windowverbs.PutWindow{Name: "m", Kind: windows.Maintenance, Patterns: []string{"n0"}, From: from, Until: from + int64(time.Hour)})
	}
	if rapid.IntRange(0, 2).Draw(t, "reservation") == 0 {
		c.apply(windowverbs.PutWindow{
			Name: "r", Kind: windows.Reservation, Tenant: drawTenant.Draw(t, "of"), GPUs: 4, From: now + int64(10*time.Minute), Until: now + int64(time.Hour),
		})
	}
}

func drawJob(t *rapid.T) jobverbs.NewJob {
	j := newJob(work.Shape{
		GPUs: uint16(rapid.SampledFrom([]int{1, 2, 3, 4, 4, 0}).Draw(t, "gpus")), GPUType: rapid.SampledFrom([]string{"", "H100"}).Draw(t, "type"),
		CPUs: uint32(rapid.SampledFrom([]int{0, 8, 40}).Draw(t, "cpus")),
	}, uint8(rapid.IntRange(3, 8).Draw(t, "priority")))
	switch rapid.IntRange(0, 5).Draw(t, "a part of a GPU, or a gang") {
	case 0:
		j.Shape.GPUs, j.Shape.FractionMilli = 0, 500
	case 1:
		j.Shape.Nodes = 2
	}
	j.MaxRuntime = int64(drawLimit.Draw(t, "limit"))
	j.Tenant, j.Queue, j.User = drawTenant.Draw(t, "tenant"), drawQueue.Draw(t, "queue"), rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user")
	j.Preemptible = rapid.IntRange(0, 3).Draw(t, "not preemptible") > 0
	return j
}

// change is something that may be supposed, and a function that does it. The function returns false if it is refused.
type change struct {
	suppose string
	do      func(*whatif.Answer) bool
}

// drawChange returns changes that are supposed, and a function that makes them.
func drawChange(t *rapid.T, c *cluster, waits ident.Job) (suppose []string, do func(*whatif.Answer) bool) {
	all := possible(t, c, waits)
	var then []func(*whatif.Answer) bool
	for _, i := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}).Draw(t, "supposed")[:rapid.SampledFrom([]int{1, 2, 3, 0}).Draw(t, "so many changes")] {
		if x := all[i](); x.suppose != "" {
			suppose, then = append(suppose, strings.Fields(x.suppose)...), append(then, x.do)
		}
	}
	return suppose, func(a *whatif.Answer) bool {
		for _, one := range then {
			if !one(a) {
				return false
			}
		}
		return true
	}
}

// possible returns functions that draw each kind of change.
func possible(t *rapid.T, c *cluster, waits ident.Job) []func() change {
	j := c.get(waits)
	update := func(set jobverbs.Fields) func(*whatif.Answer) bool {
		return func(a *whatif.Answer) bool {
			to := jobverbs.NewJob{Shape: a.Job.Shape, Queue: a.Job.Queue, Priority: a.Job.Priority, MaxRuntime: a.Job.MaxRuntime, Spec: j.Spec}
			r := c.apply(jobverbs.UpdateJob{Job: waits, Was: jobverbs.SpecDigest(j.Spec), Set: set, To: to}).(jobverbs.ControlResult)
			return r.Refusal == nil
		}
	}
	quota := func(change func(q *queueverbs.PutQuota)) func(*whatif.Answer) bool {
		return func(*whatif.Answer) bool {
			put := queueverbs.PutQuota{Tenant: j.Tenant}
			if q, ok := c.machine.View().Quota(j.Tenant); ok {
				put.MaxGPUs, put.MaxRunning, put.MaxByType, put.MaxGPUHours = q.MaxGPUs, q.MaxRunning, q.MaxByType, q.MaxGPUHours
			}
			change(&put)
			return c.apply(put).(queueverbs.QuotaResult).Refusal == nil
		}
	}
	queue := func(change func(q *work.Queue)) func(a *whatif.Answer) bool {
		return func(a *whatif.Answer) bool {
			q, _ := c.machine.View().Queue(a.Job.Queue)
			put := *q
			change(&put)
			return c.apply(queueverbs.PutQueue{Queue: put}).(queueverbs.QueueResult).Refusal == nil
		}
	}
	window := func(kind windows.Kind) func(*whatif.Answer) bool {
		return func(*whatif.Answer) bool {
			var names []string
			for w := range c.machine.View().Windows() {
				if w.Kind == kind && (kind == windows.Maintenance || w.Tenant != j.Tenant) {
					names = append(names, w.Name)
				}
			}
			for _, name := range names {
				c.apply(windowverbs.DeleteWindow{Name: name, Kind: kind})
			}
			return true
		}
	}
	number := func(least, most int) int32 { return int32(rapid.IntRange(least, most).Draw(t, "other number")) }
	return []func() change{
		func() change {
			return change{fmt.Sprintf("gpus=%d", number(1, 4)*int32(max(1, j.Shape.Nodes))), update(jobverbs.SetShape)}
		},
		func() change {
			return change{"gpu_type=" + rapid.SampledFrom([]string{"", "H100", "A100"}).Draw(t, "other type"), update(jobverbs.SetShape)}
		},
		func() change { return change{"gpu_fraction=0.5", update(jobverbs.SetShape)} },
		func() change {
			n := number(1, 2)
			return change{fmt.Sprintf("nodes=%d gpus=%d", n, n*number(1, 4)), update(jobverbs.SetShape)}
		},
		func() change { return change{fmt.Sprintf("cpus=%d", number(1, 60)), update(jobverbs.SetShape)} },
		func() change {
			return change{"selector=" + rapid.SampledFrom([]string{"", "disk=fast"}).Draw(t, "other selector"), update(jobverbs.SetShape)}
		},
		func() change { return change{"queue=" + drawQueue.Draw(t, "other queue"), update(jobverbs.SetQueue)} },
		func() change { return change{fmt.Sprintf("priority=%d", number(0, 10)), update(jobverbs.SetPriority)} },
		func() change {
			return change{fmt.Sprintf("max_runtime=%s", drawLimit.Draw(t, "other limit")), update(jobverbs.SetLimit)}
		},
		func() change {
			for other := range c.machine.View().ActiveJobs() {
				if other.Tenant == j.Tenant && other.Live() && other.Stop == v1.StopReason_UNSPECIFIED && other.ID != waits {
					return change{"cancel=" + other.ID.String(), func(*whatif.Answer) bool { c.end(other.ID); return true }}
				}
			}
			return change{}
		},
		func() change {
			n := number(1, 9)
			return change{fmt.Sprintf("quota.max_gpus=%d", n), quota(func(q *queueverbs.PutQuota) { q.MaxGPUs = &n })}
		},
		func() change {
			n := number(1, 4)
			return change{fmt.Sprintf("quota.max_running_jobs=%d", n), quota(func(q *queueverbs.PutQuota) { q.MaxRunning = &n })}
		},
		func() change {
			n := number(1, 9)
			return change{fmt.Sprintf("quota.max_gpu_hours=%d", n), quota(func(q *queueverbs.PutQuota) { q.MaxGPUHours = &n })}
		},
		func() change {
			limits := typed.Limits{{Type: "A100", GPUs: number(1, 9)}, {Type: "H100", GPUs: number(1, 9)}}
			return change{"quota.max_gpus_by_type=" + limits.String(), quota(func(q *queueverbs.PutQuota) { q.MaxByType = limits })}
		},
		func() change {
			return change{"queue.max_gpus_by_type=none", queue(func(q *work.Queue) { q.MaxByType = nil })}
		},
		func() change { return change{"maintenance=none", window(windows.Maintenance)} },
		func() change { return change{"reservations=none", window(windows.Reservation)} },
		func() change {
			return change{"protection=none", func(*whatif.Answer) bool {
				p := c.machine.View().Policy()
				base := p.Revision
				p.Preemption.ProtectFromPriority = 0
				return c.apply(queueverbs.PutPolicy{Policy: p, Base: base}).(queueverbs.PolicyResult).Refusal == nil
			}}
		},
		func() change { return change{"queue.max_gpus=none", queue(func(q *work.Queue) { q.MaxGPUs = 0 })} },
	}
}

// reserve reserves starts.
func (c *cluster) reserve() {
	v := c.machine.View()
	blocked := scheduler.Plan(v, scheduler.Options{}).Blocked.Keys()
	if starts, changed := reserve.Starts(v, blocked, c.now.UnixNano(), nil); changed {
		require.Empty(c.t, c.apply(starts).(jobverbs.PromiseResult).Refused)
	}
}

// leads does what the leader does next: it plans, and chooses jobs to preempt. It returns whether a job was placed, and
// whether places are kept for it.
func (c *cluster) leads(id ident.Job) (placed, claimed bool) {
	v := c.machine.View()
	plan := scheduler.Plan(v, scheduler.Options{Backfill: v.PromiseCount() > 0, Now: c.now.UnixNano()})
	for _, command := range plan.Commands {
		for _, p := range command.Placements {
			placed = placed || p.Job == id
		}
		require.Empty(c.t, c.apply(command).(jobverbs.PlaceResult).Refused)
	}
	for _, p := range preempt.Choose(c.machine.View(), plan.Blocked.Keys(), c.now.UnixNano()) {
		claimed = claimed || p.Job == id
	}
	return placed, claimed
}
