package place_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/place"
	"github.com/mindcoordinator/mind/scheduler/worth"
)

func nodeOf(id, kind string, gpus int, cpus uint32) *work.Node {
	n := &work.Node{ID: id, State: v1.NodeState_READY, CPUs: cpus, MemMB: 1 << 20}
	for i := range gpus {
		n.GPUs = append(n.GPUs, work.GPU{Index: uint8(i), Type: kind, Model: kind, Health: v1.GpuHealth_HEALTHY})
	}
	return n
}

// A job gets the place that the other jobs of the mix can use least.
func TestPrices_choose(t *testing.T) {
	one := work.Shape{Nodes: 1, GPUs: 1}
	typed := work.Shape{Nodes: 1, GPUs: 1, GPUType: "A100"}
	hungry := work.Shape{Nodes: 1, GPUs: 1, CPUs: 12}
	modest := work.Shape{Nodes: 1, GPUs: 1, CPUs: 2}
	pair := work.Shape{Nodes: 1, GPUs: 2}
	cpuOnly := work.Shape{Nodes: 1, CPUs: 8}
	part := func(milli uint16) work.Shape { return work.Shape{Nodes: 1, FractionMilli: milli} }
	for name, tt := range map[string]struct {
		nodes cluster
		mix   map[work.Shape]int
		jobs  []work.Shape
		want  string
	}{
		"a type that others need is left to them": {
			cluster{nodeOf("n1", "A100", 2, 64), nodeOf("n2", "H100", 8, 64)},
			map[work.Shape]int{one: 10, typed: 10},
			[]work.Shape{one, typed},
			"n2:1 n1:1",
		},
		"a job of few CPUs leaves the many to others": {
			cluster{nodeOf("n1", "A100", 2, 24), nodeOf("n2", "A100", 2, 4)},
			map[work.Shape]int{hungry: 10, modest: 10},
			[]work.Shape{modest, hungry, modest},
			"n2:1 n1:1 n2:2",
		},
		"a job without GPUs leaves CPUs beside GPUs": {
			cluster{nodeOf("n1", "A100", 2, 24), nodeOf("n2", "A100", 2, 64), nodeOf("n3", "A100", 2, 24)},
			map[work.Shape]int{hungry: 10},
			[]work.Shape{cpuOnly},
			"n2:0",
		},
		"one GPU goes where no pair is broken": {
			cluster{nodeOf("n1", "A100", 2, 64), nodeOf("n2", "A100", 3, 64)},
			map[work.Shape]int{one: 10, pair: 10},
			[]work.Shape{one, pair, pair},
			"n2:1 n1:3 n2:6",
		},
		"a fraction goes where the rest is of use": {
			cluster{nodeOf("n1", "A100", 2, 64)},
			map[work.Shape]int{part(800): 10, part(500): 10, part(200): 10},
			[]work.Shape{part(800), part(500), part(200), part(500)},
			"n1:1 n1:2 n1:1 n1:2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := place.New(tt.nodes, slices.Values([]work.Shape(nil)), func() *worth.Prices {
				return worth.Learn(maps.All(tt.mix), tt.nodes.Nodes())
			})
			got := ""
			for _, s := range tt.jobs {
				tasks, ok := pool.For(s).Place()
				require.True(t, ok)
				got += fmt.Sprintf(" %s:%d", tasks[0].Node, tasks[0].GPUs)
			}
			require.Equal(t, tt.want, got[1:])
		})
	}
}

// Without jobs that ask for GPUs there are no prices, and places are chosen by best fit.
func TestLearn_nothing(t *testing.T) {
	nodes := cluster{nodeOf("n1", "A100", 2, 64), nodeOf("n2", "A100", 1, 64)}
	require.Nil(t, worth.Learn(maps.All(map[work.Shape]int{{Nodes: 1, CPUs: 4}: 10}), nodes.Nodes()))
	pool := place.New(nodes, slices.Values([]work.Shape(nil)), func() *worth.Prices { return nil })
	tasks, ok := pool.For(work.Shape{Nodes: 1, GPUs: 1}).Place()
	require.True(t, ok)
	require.Equal(t, "n2", tasks[0].Node)
}
