package whatif_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
	"github.com/mindcoordinator/mind/fsm/work/queueverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/whatif"
)

// cluster drives a real state machine.
type cluster struct {
	t       require.TestingT
	machine *fsm.Machine
	index   uint64
	now     time.Time
}

func newCluster(t require.TestingT) *cluster {
	return &cluster{t: t, machine: fsm.New(), now: time.Unix(1_700_000_000, 0)}
}

func (c *cluster) apply(command kernel.Command) any {
	data, err := kernel.Encode(level.Newest, command)
	require.NoError(c.t, err)
	c.index++
	c.now = c.now.Add(time.Second)
	return c.machine.Apply(c.index, kernel.Pack(level.Newest, c.now, [][]byte{data}))[0]
}

func (c *cluster) node(id, kind string, n int, labels map[string]string) {
	var gpus []work.GPU
	for i := range n {
		gpus = append(gpus, work.GPU{
			UUID: fmt.Sprintf("GPU-%s-%d", id, i), Index: uint8(i), Model: "NVIDIA " + kind, Type: kind, MemMB: 80_000,
			Health: v1.GpuHealth_HEALTHY, Simulated: true, NVLink: (1<<n - 1) &^ (1 << i),
		})
	}
	r := c.apply(nodeverbs.RegisterNode{Node: work.Node{
		ID: id, Hostname: id, BootID: "b", AgentVersion: "test", GRPCAddr: id + ":1", GPUs: gpus, CPUs: 64, MemMB: 512 << 10, Labels: labels,
	}}).(nodeverbs.NodeResult)
	require.Nil(c.t, r.Refusal)
}

func newJob(shape work.Shape, priority uint8) jobverbs.NewJob {
	if shape.Nodes == 0 {
		shape.Nodes = 1
	}
	return jobverbs.NewJob{Tenant: "t", User: "u", Name: "j", Queue: work.DefaultQueue, Priority: priority, Spec: []byte("spec"), Shape: shape}
}

func (c *cluster) submit(j jobverbs.NewJob) ident.Job {
	r := c.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{j}}).(jobverbs.SubmitJobsResult).Results[0]
	require.Nil(c.t, r.Refusal)
	return r.Job
}

// plan places the jobs that fit, and reports that they run.
func (c *cluster) plan() (placed []ident.Job) {
	for _, p := range scheduler.Plan(c.machine.View(), scheduler.Options{}).Commands {
		r := c.apply(p).(jobverbs.PlaceResult)
		require.Empty(c.t, r.Refused)
		for _, one := range p.Placements {
			placed = append(placed, one.Job)
			c.run(one.Job)
		}
	}
	return placed
}

func (c *cluster) run(id ident.Job) {
	j := c.get(id)
	for _, t := range j.Tasks {
		r := jobverbs.TaskReport{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token}
		for _, kind := range []jobverbs.ReportKind{jobverbs.ReportStarting, jobverbs.ReportRunning} {
			r.Kind = kind
			c.apply(jobverbs.ReportTasks{Node: t.Node, Reports: []jobverbs.TaskReport{r}})
		}
	}
}

func (c *cluster) get(id ident.Job) *work.Job {
	j, ok := c.machine.View().Job(id)
	require.True(c.t, ok)
	return j
}

func (c *cluster) try(id ident.Job, suppose ...string) *whatif.Answer {
	change, err := whatif.Parse(suppose)
	require.NoError(c.t, err)
	v := c.machine.View()
	a, err := whatif.Try(v, c.get(id), change, c.now, whatif.Prices(v))
	require.NoError(c.t, err)
	return a
}

func (c *cluster) remedies(id ident.Job) (out []string) {
	for _, r := range whatif.Remedies(c.machine.View(), c.get(id), c.now) {
		out = append(out, r.String())
	}
	return out
}

// crowded returns two nodes of four H100 and one of four A100. A job of four GPUs runs on each H100 node, and one of
// two on the A100 node.
func crowded(t require.TestingT) (*cluster, []ident.Job) {
	c := newCluster(t)
	c.node("h1", "H100", 4, nil)
	c.node("h2", "H100", 4, map[string]string{"disk": "fast"})
	c.node("a1", "A100", 4, nil)
	var ids []ident.Job
	for _, s := range []work.Shape{{GPUs: 4, GPUType: "H100"}, {GPUs: 2, GPUType: "H100"}, {GPUs: 1, GPUType: "A100"}} {
		ids = append(ids, c.submit(newJob(s, 5)))
	}
	require.Len(t, c.plan(), 3)
	return c, ids
}

func TestTry(t *testing.T) {
	c, _ := crowded(t)
	waits := c.submit(newJob(work.Shape{GPUs: 4, GPUType: "H100"}, 5))
	require.Empty(t, c.plan())
	free := "h1"
	if c.machine.View().Use("h1").Exclusive == 0b1111 {
		free = "h2"
	}
	for _, x := range []struct {
		suppose []string
		nodes   []string
	}{
		{nil, nil},
		{[]string{"gpus=3"}, nil},
		{[]string{"gpus=2"}, []string{free}},
		{[]string{"gpus=1", "gpu_type=A100|H100", "selector=disk=fast"}, []string{"h2"}},
		{[]string{"gpu_type=A100"}, nil},
		{[]string{"gpu_type=A100", "gpus=3"}, []string{"a1"}},
		{[]string{"gpu_fraction=0.5", "gpu_type=A100"}, []string{"a1"}},
		{[]string{"priority=10"}, nil},
		{[]string{"max_runtime=1h"}, nil},
	} {
		if free == "h1" && slices.Contains(x.suppose, "selector=disk=fast") {
			x.nodes = nil
		}
		require.Equal(t, x.nodes, c.try(waits, x.suppose...).Nodes, "%v", x.suppose)
	}
	a := c.try(waits)
	require.NotEmpty(t, a.Why)
	require.Zero(t, a.Start.At, "no job says how long it takes")
}

func TestTry_countsOthersWhoComeFirst(t *testing.T) {
	c, running := crowded(t)
	other := newJob(work.Shape{GPUs: 4, GPUType: "H100"}, 9)
	other.Tenant = "other"
	c.submit(other)
	waits := c.submit(newJob(work.Shape{GPUs: 4, GPUType: "H100"}, 5))
	require.Empty(t, c.plan())
	cancel := "cancel=" + running[0].String()
	require.Empty(t, c.try(waits, cancel).Nodes, "the one of higher priority gets what is freed")
	require.Len(t, c.try(waits, cancel, "priority=10").Nodes, 1)
}

func TestTry_foresees(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "H100", 2, nil)
	first := newJob(work.Shape{GPUs: 2}, 5)
	first.MaxRuntime = int64(time.Hour)
	runs := c.submit(first)
	c.plan()
	second := c.submit(newJob(work.Shape{GPUs: 2}, 5))
	third := c.submit(newJob(work.Shape{GPUs: 2}, 5))
	require.Empty(t, c.plan())
	a := c.try(second)
	require.True(t, a.Known)
	require.Equal(t, runs, a.Start.After)
	require.Equal(t, c.get(runs).StartedAt+int64(time.Hour), a.Start.At)
	a = c.try(third)
	require.Zero(t, a.Start.At, "nobody knows how long the second takes")
	require.Equal(t, second, a.Start.After)
	a = c.try(third, "priority=6")
	require.Equal(t, runs, a.Start.After)
	require.Equal(t, []string{"n1"}, c.try(third, "priority=6", "cancel="+runs.String()).Nodes)
}

func TestRemedies(t *testing.T) {
	c, running := crowded(t)
	waits := c.submit(newJob(work.Shape{GPUs: 4, GPUType: "H100", Selector: "disk=fast"}, 5))
	require.Empty(t, c.plan())
	v := c.machine.View()
	on := func(node string) string {
		for _, id := range running {
			if c.get(id).Tasks[0].Node == node {
				return id.String()
			}
		}
		return ""
	}
	require.Contains(t, c.remedies(waits), "cancel="+on("h2"))
	if v.Use("h2").Exclusive != 0b1111 {
		require.Contains(t, c.remedies(waits), "gpus=2")
	}

	quota := int32(7)
	require.Nil(t, c.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUs: &quota}).(queueverbs.QuotaResult).Refusal)
	small := c.submit(newJob(work.Shape{GPUs: 1, GPUType: "A100"}, 5))
	require.Empty(t, c.plan())
	require.Contains(t, c.remedies(small), "quota.max_gpus=8")
	require.NotContains(t, c.remedies(small), "quota.max_gpus=9")

	held := newJob(work.Shape{}, 5)
	held.NotBefore = c.now.Add(time.Hour).UnixNano()
	require.Equal(t, []string{"held=false"}, c.remedies(c.submit(held)))
	require.Empty(t, c.remedies(c.submit(newJob(work.Shape{}, 5))), "it starts with the next plan")
}

func TestRemedies_queues(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "H100", 4, nil)
	for _, q := range []work.Queue{{Name: "small", Weight: 1, MaxGPUs: 1}, {Name: "large", Weight: 1}} {
		require.Nil(t, c.apply(queueverbs.PutQueue{Queue: q}).(queueverbs.QueueResult).Refusal)
	}
	j := newJob(work.Shape{GPUs: 1}, 5)
	j.Queue = "small"
	c.submit(j)
	require.Len(t, c.plan(), 1)
	waits := c.submit(j)
	require.Empty(t, c.plan())
	found := c.remedies(waits)
	require.Contains(t, found, "queue=default")
	require.Contains(t, found, "queue.max_gpus=none")
}

func TestParse_refuses(t *testing.T) {
	for _, text := range []string{"gpus", "gpus=", "gpus=-1", "priority=11", "gpu_fraction=2", "topology=x", "cancel=x", "selector=a", "max_runtime=x", "quota.max_gpus=-1", "held=true", "speed=1"} {
		_, err := whatif.Parse([]string{text})
		require.Error(t, err, text)
	}
	c, err := whatif.Parse([]string{"gpus=3", "nodes=2"})
	require.NoError(t, err)
	cl, _ := crowded(t)
	id := cl.submit(newJob(work.Shape{GPUs: 4}, 5))
	_, err = whatif.Try(cl.machine.View(), cl.get(id), c, cl.now, whatif.Prices(cl.machine.View()))
	require.ErrorContains(t, err, "cannot be shared equally")
}

// For random clusters: a job that would start with a shape starts if it is submitted with this shape, and a job that
// would wait does not.
func TestTry_saysWhatThePlannerDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		c.node("n", "H100", 2, nil)
		for i := range rapid.IntRange(0, 2).Draw(t, "nodes") {
			c.node(fmt.Sprintf("n%d", i), rapid.SampledFrom([]string{"H100", "A100"}).Draw(t, "kind"), rapid.SampledFrom([]int{2, 4}).Draw(t, "gpus"), nil)
		}
		for range rapid.IntRange(0, 6).Draw(t, "others") {
			j := newJob(work.Shape{GPUs: uint16(rapid.IntRange(1, 4).Draw(t, "g")), GPUType: rapid.SampledFrom([]string{"", "H100"}).Draw(t, "type")}, 5)
			j.Tenant = rapid.SampledFrom([]string{"t", "other"}).Draw(t, "tenant")
			c.submit(j)
		}
		if rapid.Bool().Draw(t, "limited") {
			limit := int32(rapid.IntRange(1, 8).Draw(t, "quota"))
			c.apply(queueverbs.PutQuota{Tenant: "t", MaxGPUs: &limit})
		}
		c.plan()
		asked := c.submit(newJob(work.Shape{GPUs: 64}, 5))
		c.plan()
		gpus := rapid.IntRange(0, 4).Draw(t, "asked")
		said := c.try(asked, fmt.Sprintf("gpus=%d", gpus))
		placed := c.submit(newJob(work.Shape{GPUs: uint16(gpus)}, 5))
		require.Equal(t, slices.Contains(c.plan(), placed), said.Starts())
	})
}

// A proposed cancel is enough: when the jobs have ended, the next plan places the job.
func TestRemedies_cancelsAreEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster(t)
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			c.node(fmt.Sprintf("n%d", i), "H100", 4, nil)
		}
		for range rapid.IntRange(1, 8).Draw(t, "others") {
			c.submit(newJob(work.Shape{GPUs: uint16(rapid.IntRange(1, 4).Draw(t, "gpus"))}, uint8(rapid.IntRange(0, 10).Draw(t, "priority"))))
		}
		c.plan()
		waits := c.submit(newJob(work.Shape{GPUs: 4}, 5))
		c.plan()
		if !c.get(waits).Waiting() {
			return
		}
		for _, r := range whatif.Remedies(c.machine.View(), c.get(waits), c.now) {
			change, err := whatif.Parse(r.Suppose)
			require.NoError(t, err)
			if len(change.Cancel) == 0 {
				continue
			}
			for _, id := range change.Cancel {
				c.end(id)
			}
			require.Contains(t, c.plan(), waits)
		}
	})
}

// end lets a running job succeed.
func (c *cluster) end(id ident.Job) {
	j, code := c.get(id), int32(0)
	for _, t := range j.Tasks {
		c.apply(jobverbs.ReportTasks{Node: t.Node, Reports: []jobverbs.TaskReport{
			{Job: id, Attempt: j.Attempt, Rank: t.Rank, Token: j.Token, Kind: jobverbs.ReportEnded, ExitCode: &code},
		}})
	}
	require.True(c.t, c.get(id).Terminal())
}

// The answers for another size do not depend on how much of a queue's limit another tenant holds.
func TestTells_nothingOfWhatOthersHold(t *testing.T) {
	for _, s := range []struct {
		size  int
		asked []string
	}{{4, []string{"gpus=1", "gpus=2", "gpus=3", "gpu_fraction=0.5"}}, {1, []string{"gpus=2", "gpus=3", "gpus=4"}}} {
		for _, asked := range s.asked {
			for held := range 4 {
				c := newCluster(t)
				c.node("n1", "H100", 8, nil)
				require.Nil(t, c.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "shared", Weight: 1, MaxGPUs: 4}}).(queueverbs.QueueResult).Refusal)
				if held > 0 {
					other := newJob(work.Shape{GPUs: uint16(held)}, 5)
					other.Tenant, other.Queue = "other", "shared"
					c.submit(other)
					require.Len(t, c.plan(), 1)
				}
				j := newJob(work.Shape{GPUs: uint16(s.size)}, 5)
				j.Queue = "shared"
				id := c.submit(j)
				change, err := whatif.Parse([]string{asked})
				require.NoError(t, err)
				queue, tells := whatif.Tells(c.machine.View(), c.get(id), &change)
				require.Equal(t, held > 0, tells, "%d asks %s while others hold %d", s.size, asked, held)
				if held == 0 {
					continue
				}
				require.Equal(t, "shared", queue)
				for _, r := range c.remedies(id) {
					require.NotContains(t, r, "gpus=1")
					require.NotContains(t, r, "gpus=2")
				}
			}
		}
	}
}

// Answers that do not depend on other tenants are given.
func TestTells_whatIsKnownIsAnswered(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "H100", 8, nil)
	require.Nil(t, c.apply(queueverbs.PutQueue{Queue: work.Queue{Name: "shared", Weight: 1, MaxGPUs: 4}}).(queueverbs.QueueResult).Refusal)
	other := newJob(work.Shape{GPUs: 2}, 5)
	other.Tenant, other.Queue = "other", "shared"
	c.submit(other)
	require.Len(t, c.plan(), 1)
	j := newJob(work.Shape{GPUs: 3}, 5)
	j.Queue = "shared"
	barred := c.submit(j)
	j.Shape.GPUs = 2
	free := c.submit(j)
	for _, tc := range []struct {
		id      ident.Job
		suppose string
	}{
		{barred, "gpus=4"}, {barred, "gpus=5"}, {barred, "priority=9"}, {barred, "gpus=0"}, {barred, "queue=default"}, {free, "gpus=1"}, {free, "gpus=5"},
	} {
		change, err := whatif.Parse([]string{tc.suppose})
		require.NoError(t, err)
		_, tells := whatif.Tells(c.machine.View(), c.get(tc.id), &change)
		require.False(t, tells, tc.suppose)
	}
}
