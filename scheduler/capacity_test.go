package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/scheduler"
	"github.com/mindcoordinator/mind/scheduler/capacity"
)

func capacityOf(nodes ...*work.Node) *capacity.Capacity {
	c := capacity.New()
	for _, n := range nodes {
		c.Put(n)
	}
	return c
}

func machine(id string, gpus []work.GPU, cpus, mem uint32, labels map[string]string) *work.Node {
	return &work.Node{ID: id, GPUs: gpus, CPUs: cpus, MemMB: mem, Labels: labels}
}

func TestCapacity_saysWhatIsLacking(t *testing.T) {
	c := capacityOf(
		machine("n1", gpus("n1", "H100", 8, 4), 64, 512_000, map[string]string{"zone": "a"}),
		machine("n2", gpus("n2", "H100", 8, 4), 32, 256_000, map[string]string{"zone": "b"}),
		machine("n3", gpus("n3", "A100", 4, 4), 128, 128_000, map[string]string{"zone": "b"}),
		machine("n4", nil, 256, 64_000, nil),
	)
	for name, tt := range map[string]struct {
		shape work.Shape
		want  capacity.Room
	}{
		"fits":                          {work.Shape{Nodes: 1, GPUs: 8, GPUType: "h100"}, capacity.Room{}},
		"a fraction fits":               {work.Shape{Nodes: 1, FractionMilli: 500, GPUType: "A100"}, capacity.Room{}},
		"a gang fits":                   {work.Shape{Nodes: 2, GPUs: 8}, capacity.Room{}},
		"tasks without GPUs anywhere":   {work.Shape{Nodes: 4, CPUs: 32}, capacity.Room{}},
		"no such label":                 {work.Shape{Nodes: 1, Selector: "zone=c"}, capacity.Room{Lacks: capacity.NeedLabels}},
		"no such type":                  {work.Shape{Nodes: 1, GPUs: 1, GPUType: "B200"}, capacity.Room{Lacks: capacity.NeedGPUType}},
		"no such type with these":       {work.Shape{Nodes: 1, GPUs: 1, GPUType: "A100", Selector: "zone=a"}, capacity.Room{Lacks: capacity.NeedGPUType}},
		"GPU memory":                    {work.Shape{Nodes: 1, GPUs: 1, GPUMemMB: 90_000}, capacity.Room{Lacks: capacity.NeedGPUMemory, Most: 80_000}},
		"GPUs on one node":              {work.Shape{Nodes: 1, GPUs: 8, GPUType: "A100"}, capacity.Room{Lacks: capacity.NeedGPUs, Most: 4}},
		"linked GPUs":                   {work.Shape{Nodes: 1, GPUs: 8, Topology: work.TopologyNVLink}, capacity.Room{Lacks: capacity.NeedNVLink}},
		"CPUs":                          {work.Shape{Nodes: 1, CPUs: 4000}, capacity.Room{Lacks: capacity.NeedCPUs, Most: 256}},
		"CPUs beside GPUs":              {work.Shape{Nodes: 1, GPUs: 8, CPUs: 128}, capacity.Room{Lacks: capacity.NeedCPUs, Most: 64}},
		"memory":                        {work.Shape{Nodes: 1, MemMB: 1 << 20}, capacity.Room{Lacks: capacity.NeedMemory, Most: 512_000}},
		"memory where the CPUs are":     {work.Shape{Nodes: 1, CPUs: 200, MemMB: 100_000}, capacity.Room{Lacks: capacity.NeedMemory, Most: 64_000}},
		"nodes with equal GPUs":         {work.Shape{Nodes: 3, GPUs: 4}, capacity.Room{Lacks: capacity.NeedNodes, Most: 2}},
		"nodes that differ in others":   {work.Shape{Nodes: 3, GPUs: 2, GPUType: "A100|H100"}, capacity.Room{Lacks: capacity.NeedNodes, Most: 2}},
		"nodes at all":                  {work.Shape{Nodes: 5}, capacity.Room{Lacks: capacity.NeedNodes, Most: 4}},
		"nodes that have the rest, too": {work.Shape{Nodes: 2, GPUs: 8, CPUs: 64}, capacity.Room{Lacks: capacity.NeedNodes, Most: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, c.RoomFor(tt.shape))
			require.Equal(t, tt.want, c.RoomFor(tt.shape), "asked again")
		})
	}
	for _, tt := range []struct {
		shape       work.Shape
		gpus, nodes int
	}{
		{work.Shape{GPUs: 9999}, 16, 2},
		{work.Shape{GPUs: 9999, GPUType: "A100"}, 4, 1},
		{work.Shape{GPUs: 9999, CPUs: 64}, 8, 1},
		{work.Shape{GPUs: 9999, Selector: "zone=b"}, 8, 1},
		{work.Shape{GPUs: 9999, GPUType: "B200"}, 0, 0},
	} {
		gpus, nodes := c.Largest(tt.shape)
		require.Equal(t, [2]int{tt.gpus, tt.nodes}, [2]int{gpus, nodes}, "%v", tt.shape)
	}
}

// Nodes that differ in how many GPUs they have, or in GPUs that a job does not use, can have a gang together.
func TestCapacity_ofNodesThatDiffer(t *testing.T) {
	mixed := append(gpus("n3", "A100", 1, 1), gpus("m3", "H100", 2, 2)...)
	for i := range mixed {
		mixed[i].Index = uint8(i)
	}
	c := capacityOf(
		machine("n1", gpus("n1", "H100", 2, 2), 64, 512_000, nil), machine("n2", gpus("n2", "H100", 4, 4), 64, 512_000, nil), machine("n3", mixed, 64, 512_000, nil),
	)
	require.Zero(t, c.RoomFor(work.Shape{Nodes: 3, GPUs: 2, GPUType: "H100"}))
	require.Equal(t, capacity.Room{Lacks: capacity.NeedNodes, Most: 2}, c.RoomFor(work.Shape{Nodes: 3, GPUs: 2}))
	require.Equal(t, capacity.Room{Lacks: capacity.NeedNodes, Most: 1}, c.RoomFor(work.Shape{Nodes: 2, GPUs: 3, GPUType: "H100"}))
	gpus, nodes := c.Largest(work.Shape{GPUType: "H100"})
	require.Equal(t, [2]int{6, 3}, [2]int{gpus, nodes}, "2 on each of 3 nodes")
	gpus, nodes = c.Largest(work.Shape{})
	require.Equal(t, [2]int{4, 1}, [2]int{gpus, nodes}, "4 on one, or 2 on each of 2: fewer nodes")
}

// A change of a node's capacity is seen at once. Another change, such as of its state, drops no cached answer.
func TestCapacity_followsTheNodes(t *testing.T) {
	c := capacity.New()
	four, eight := work.Shape{Nodes: 1, GPUs: 4}, work.Shape{Nodes: 1, GPUs: 8}
	require.Equal(t, capacity.Room{Lacks: capacity.NeedLabels}, c.RoomFor(four), "there is no node")
	c.Put(machine("n1", gpus("n1", "H100", 4, 4), 64, 1000, nil))
	require.Zero(t, c.RoomFor(four))
	require.Equal(t, capacity.Room{Lacks: capacity.NeedGPUs, Most: 4}, c.RoomFor(eight))
	c.Put(machine("n1", gpus("n1", "H100", 8, 8), 64, 1000, nil))
	require.Zero(t, c.RoomFor(eight))
	c.Put(machine("n2", gpus("n2", "H100", 8, 8), 64, 1000, nil))
	require.Zero(t, c.RoomFor(work.Shape{Nodes: 2, GPUs: 8}))

	ill := gpus("n1", "H100", 8, 8)
	ill[3].Health = v1.GpuHealth_QUARANTINED
	away := machine("n1", ill, 64, 1000, nil)
	away.State = v1.NodeState_LOST
	c.Put(away)
	require.Zero(t, c.RoomFor(work.Shape{Nodes: 2, GPUs: 8}), "it may be back tomorrow")

	c.Remove("n1")
	c.Remove("n1")
	require.Equal(t, 1, c.Nodes())
	require.Equal(t, capacity.Room{Lacks: capacity.NeedNodes, Most: 1}, c.RoomFor(work.Shape{Nodes: 2, GPUs: 8}))
	c.Remove("n2")
	require.Zero(t, c.Nodes())
	require.NotZero(t, c.RoomFor(four))
}

// There is room for a shape exactly if the planner places it while nothing else runs and all nodes are healthy.
func TestCapacity_isWhatThePlannerPlaces(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, c := newState(t), capacity.New()
		drawNodes(r, s)
		well := newState(t)
		for n := range s.machine.View().Nodes() {
			// The capacity counts the node after one of these changed, with its faults. The planner gets a healthy one.
			before := *n
			before.GPUs = slices.Clone(n.GPUs)
			switch rapid.SampledFrom([]string{"labels", "links", "GPUs", "CPUs"}).Draw(r, "changed") {
			case "labels":
				before.Labels = map[string]string{"zone": "before"}
			case "links":
				for i := range before.GPUs {
					before.GPUs[i].NVLink = 0
				}
			case "GPUs":
				before.GPUs = nil
			default:
				before.CPUs = 1
			}
			c.Put(&before)
			c.Put(n)
			inventory := slices.Clone(n.GPUs)
			for i := range inventory {
				inventory[i].Health = v1.GpuHealth_HEALTHY
			}
			well.node(n.ID, inventory, n.Labels)
		}
		drawJobs(r, s)
		for j := range s.machine.View().Jobs(false, 0) {
			w := newState(t)
			for n := range well.machine.View().Nodes() {
				w.node(n.ID, n.GPUs, n.Labels)
			}
			result := w.apply(jobverbs.SubmitJobs{Jobs: []jobverbs.NewJob{w.job(j.Shape, 5)}})[0].(jobverbs.SubmitJobsResult).Results[0]
			require.Nil(r, result.Refusal)
			placed := scheduler.Plan(w.machine.View(), scheduler.Options{}).Placed
			require.Equal(r, placed == 1, c.RoomFor(j.Shape) == capacity.Room{}, "%+v on %d nodes: %+v", j.Shape, c.Nodes(), c.RoomFor(j.Shape))
		}
	})
}

// The cost for a submit on a cluster in which no two nodes have the same labels.
func BenchmarkCapacity(b *testing.B) {
	c := capacity.New()
	for i := range 10_000 {
		id := fmt.Sprintf("n%05d", i)
		c.Put(machine(id, gpus(id, "H100", 8, 8), 64, 512_000, map[string]string{"name": id, "rack": fmt.Sprint(i / 40)}))
	}
	shape := work.Shape{Nodes: 1, GPUs: 4, GPUType: "H100", CPUs: 8, Selector: "rack=17"}
	b.Run("asked before", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.RoomFor(shape)
		}
	})
	b.Run("new shape", func(b *testing.B) {
		mem := uint32(0)
		for b.Loop() {
			mem++
			shape.MemMB = mem
			c.RoomFor(shape)
		}
	})
	b.Run("node whose state changed", func(b *testing.B) {
		n := machine("n00042", gpus("n00042", "H100", 8, 8), 64, 512_000, map[string]string{"name": "n00042", "rack": "1"})
		b.ReportAllocs()
		for b.Loop() {
			next := *n
			c.Put(&next)
		}
	})
}
