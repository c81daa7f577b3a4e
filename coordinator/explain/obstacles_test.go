package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/fsm/work/typed"
	"github.com/mindcoordinator/mind/fsm/work/windows"
	"github.com/mindcoordinator/mind/fsm/work/windowverbs"
	"github.com/mindcoordinator/mind/scheduler"
)

// cluster drives a real state machine with one node of eight H100.
type cluster struct {
	t       *testing.T
	machine *fsm.Machine
	index   uint64
	now     time.Time
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, machine: fsm.New(), now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	n := work.Node{ID: "n1", Hostname: "n1", BootID: "b", AgentVersion: "test", GRPCAddr: "n1:1", CPUs: 64, MemMB: 512 << 10}
	for i := range 8 {
		n.GPUs = append(n.GPUs, work.GPU{UUID: fmt.Sprint(i), Index: uint8(i), Type: "H100", Model: "NVIDIA H100", MemMB: 80_000, Health: v1.GpuHealth_HEALTHY})
	}
	require.Nil(t, c.apply(nodeverbs.RegisterNode{Node: n}).(nodeverbs.NodeResult).Refusal)
	return c
}

func (c *cluster) apply(command kernel.Command) any {
	data, err := kernel.Encode(level.Newest, command)
	require.NoError(c.t, err)
	c.index++
	return c.machine.Apply(c.index, kernel.Pack(level.Newest, c.now, [][]byte{data}))[0]
}

func (c *cluster) submit(gpus uint16, priority uint8) ident.Job {
	r := c.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{{
		Tenant: "t", User: "u", Name: "j", Queue: work.DefaultQueue, Priority: priority, Spec: []byte("spec"), Preemptible: true,
		Shape: work.Shape{Nodes: 1, GPUs: gpus}, MaxRuntime: int64(4 * time.Minute),
	}}}).(jobverbs.SubmitJobsResult).Results[0]
	require.Nil(c.t, r.Refusal)
	return r.Job
}

// plan places jobs, and reports that they run.
func (c *cluster) plan() {
	for _, p := range scheduler.Plan(c.machine.View(), scheduler.Options{}).Commands {
		require.Empty(c.t, c.apply(p).(jobverbs.PlaceResult).Refused)
		for _, one := range p.Placements {
			j, _ := c.machine.View().Job(one.Job)
			for _, kind := range []jobverbs.ReportKind{jobverbs.ReportStarting, jobverbs.ReportRunning} {
				c.apply(jobverbs.ReportTasks{Node: "n1", Reports: []jobverbs.TaskReport{{Job: one.Job, Attempt: j.Attempt, Token: j.Token, Kind: kind}}})
			}
		}
	}
}

// protects has the policy protect running jobs from a higher priority for two hours.
func protects(c *cluster) {
	p := c.machine.View().Policy()
	base := p.Revision
	p.Preemption.ProtectFromPriority = int64(2 * time.Hour)
	require.Nil(c.t, c.apply(queueverbs.PutPolicy{Policy: p, Base: base}).(queueverbs.PolicyResult).Refusal)
}

// Each kind of limit, window and protection is an obstacle of its own, with its figures.
func TestObstacles_areTyped(t *testing.T) {
	one := int32(1)
	window := func(w windowverbs.PutWindow) func(*cluster) {
		return func(c *cluster) {
			w.From = c.now.UnixNano() + int64(2*time.Minute)
			w.Until = w.From + int64(time.Hour)
			require.Nil(t, c.apply(w).(windowverbs.WindowResult).Refusal)
		}
	}
	for name, x := range map[string]struct {
		running  uint16
		bars     func(*cluster)
		obstacle *v1.JobObstacle
	}{
		"quota by type": {6, func(c *cluster) {
			c.apply(queueverbs.PutQuota{Tenant: "t", MaxByType: typed.Limits{{Type: "H100", GPUs: 7}}})
		}, &v1.JobObstacle{Kind: v1.ObstacleKind_QUOTA, Tenant: "t", Resource: "gpus", Name: "H100", Limit: number(7), Used: number(6), Needed: number(2)}},
		"GPU hours": {4, func(c *cluster) {
			c.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUHours: &one})
		}, &v1.JobObstacle{Kind: v1.ObstacleKind_QUOTA, Tenant: "t", Resource: "gpu_hours", Limit: number(1), Used: number(2)}},
		"limit of a queue by type": {6, func(c *cluster) {
			c.apply(queueverbs.PutQueue{Queue: work.Queue{Name: work.DefaultQueue, Weight: 1, MaxByType: typed.Limits{{Type: "H100", GPUs: 7}}}})
		}, &v1.JobObstacle{Kind: v1.ObstacleKind_QUEUE_LIMIT, Queue: work.DefaultQueue, Resource: "gpus", Name: "H100", Limit: number(7), Needed: number(2)}},
		"reservation": {
			2, window(windowverbs.PutWindow{Name: "secret", Kind: windows.Reservation, Tenant: "other", GPUs: 8}),
			&v1.JobObstacle{Kind: v1.ObstacleKind_RESERVATION, Count: &one},
		},
		"maintenance": {
			2, window(windowverbs.PutWindow{Name: "kernel", Kind: windows.Maintenance, Patterns: []string{"n1"}}),
			&v1.JobObstacle{Kind: v1.ObstacleKind_MAINTENANCE, Name: "kernel", Count: &one},
		},
		"protection": {8, protects, &v1.JobObstacle{Kind: v1.ObstacleKind_PROTECTION, Count: &one}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.submit(x.running, 3)
			c.plan()
			c.now = c.now.Add(30 * time.Minute)
			x.bars(c)
			r := c.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{{
				Tenant: "t", User: "u", Name: "k", Queue: work.DefaultQueue, Priority: 5, Spec: []byte("spec"), Shape: work.Shape{Nodes: 1, GPUs: 2},
			}}}).(jobverbs.SubmitJobsResult).Results[0]
			c.plan()
			v := c.machine.View()
			j, _ := v.Job(r.Job)
			require.True(t, j.Waiting())
			var found *v1.JobObstacle
			for _, o := range Obstacles(v, j, v.ClassReason(v.ClassOf(j))) {
				require.NotContains(t, o.GetMessage()+o.GetName(), "secret", "the name of another tenant's reservation")
				if o.GetKind() == x.obstacle.GetKind() && o.GetName() == x.obstacle.GetName() {
					found = o
				}
			}
			require.NotNil(t, found)
			require.NotEmpty(t, found.GetMessage())
			if found.GetKind() == v1.ObstacleKind_PROTECTION {
				require.Equal(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), found.GetUntil().AsTime(), "two hours after its start")
				require.Contains(t, found.GetMessage(), "2026-03-01T12:00:00Z")
			}
			if kind := found.GetKind(); kind == v1.ObstacleKind_MAINTENANCE || kind == v1.ObstacleKind_RESERVATION {
				require.Equal(t, c.now.Add(62*time.Minute), found.GetUntil().AsTime())
			}
			if found.GetResource() == "gpu_hours" {
				require.Equal(t, time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC), found.GetUntil().AsTime())
			}
			found.Message, found.Until = "", nil
			require.EqualExportedValues(t, x.obstacle, found)
		})
	}
}

func number(n float64) *float64 { return &n }
