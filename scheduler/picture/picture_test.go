package picture_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/scheduler/picture"
)

// shared is a cluster of four nodes with four GPUs each, and a tree of queues.
type shared struct{ nodes []*work.Node }

func newShared() *shared {
	s := &shared{}
	for i := range 4 {
		n := &work.Node{ID: fmt.Sprint("n", i), State: v1.NodeState_READY, CPUs: 32, MemMB: 1000}
		for g := range uint8(4) {
			n.GPUs = append(n.GPUs, work.GPU{Index: g, Type: []string{"A", "B"}[i%2], Health: v1.GpuHealth_HEALTHY})
		}
		s.nodes = append(s.nodes, n)
	}
	return s
}

func (s *shared) Node(id string) (*work.Node, bool) {
	i := slices.IndexFunc(s.nodes, func(n *work.Node) bool { return n.ID == id })
	if i < 0 {
		return nil, false
	}
	return s.nodes[i], true
}

func (s *shared) Lineage(queue string) iter.Seq[*work.Queue] {
	return func(yield func(*work.Queue) bool) {
		_ = yield(&work.Queue{Name: queue}) && queue != "root" && yield(&work.Queue{Name: "root"})
	}
}

type placed struct {
	job    *work.Job
	places []work.TaskPlacement
}

// same checks that a picture has what a new one has in which only the given jobs run.
func same(t require.TestingT, on *shared, want []placed, p *picture.Picture) {
	fresh := picture.Empty(on)
	for _, x := range want {
		fresh.Add(x.job, x.places)
	}
	for _, n := range on.nodes {
		require.Equal(t, fresh.Use(n.ID), p.Use(n.ID))
	}
	for _, tenant := range []string{"t", "u"} {
		require.Equal(t, fresh.Usage(tenant), p.Usage(tenant))
		for _, name := range []string{"A", "B"} {
			require.Equal(t, fresh.HeldOfType(tenant, name), p.HeldOfType(tenant, name))
		}
	}
	for _, queue := range []string{"root", "x", "y"} {
		require.Equal(t, fresh.QueueTreeGPUs(queue), p.QueueTreeGPUs(queue))
		for _, name := range []string{"A", "B"} {
			require.Equal(t, fresh.QueueTreeOfType(queue, name), p.QueueTreeOfType(queue, name))
		}
	}
	for i := range 3 {
		require.Equal(t, fresh.Live(array(i)), p.Live(array(i)))
	}
}

func array(i int) ident.Job { id, _ := ident.Array(uint64(i + 1)); return id }

// After each change, and after each Undo, a picture is as if it had been made with the jobs that run in it.
func TestPicture_isTheSumOfWhatRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on := newShared()
		p := picture.Empty(on)
		var runs []placed
		type moment struct {
			mark int
			runs []placed
		}
		var moments []moment
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				moments = append(moments, moment{p.Mark(), slices.Clone(runs)})
			case 1:
				if len(runs) > 0 {
					k := rapid.IntRange(0, len(runs)-1).Draw(t, "leaves")
					p.Remove(runs[k].job, runs[k].places)
					runs = slices.Delete(runs, k, k+1)
				}
			case 2:
				if len(moments) > 0 {
					k := rapid.IntRange(0, len(moments)-1).Draw(t, "back to")
					p.Undo(moments[k].mark)
					runs, moments = slices.Clone(moments[k].runs), moments[:k]
				}
			default:
				x := placed{job: &work.Job{
					ID: array(rapid.IntRange(0, 2).Draw(t, "array")).At(uint32(i)), Tenant: rapid.SampledFrom([]string{"t", "u"}).Draw(t, "tenant"),
					Queue: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "queue"), Shape: work.Shape{Nodes: 1, GPUs: uint16(rapid.IntRange(0, 4).Draw(t, "gpus")), CPUs: 1, MemMB: 10},
				}}
				if rapid.Bool().Draw(t, "a part of one") {
					x.job.Shape.GPUs, x.job.Shape.FractionMilli = 0, 300
				}
				for _, n := range rapid.Permutation(on.nodes).Draw(t, "nodes")[:rapid.IntRange(1, 2).Draw(t, "tasks")] {
					gpus, ok := p.Load(n).Fits(x.job.Shape)
					if !ok {
						continue
					}
					x.places = append(x.places, work.TaskPlacement{Node: n.ID, GPUs: gpus})
				}
				p.Add(x.job, x.places)
				runs = append(runs, x)
			}
			same(t, on, runs, p)
		}
	})
}

// Places that are kept for a job are free for nobody, and count as held by it.
func TestPicture_keep(t *testing.T) {
	on := newShared()
	p := picture.Empty(on)
	j := &work.Job{ID: array(0).At(1), Tenant: "t", Queue: "x", Shape: work.Shape{Nodes: 1, GPUs: 3}}
	mark := p.Mark()
	p.Keep(j, []work.TaskPlacement{{Node: "n0", GPUs: 7}})
	_, ok := p.Load(on.nodes[0]).Fits(work.Shape{GPUs: 2})
	require.False(t, ok)
	require.Equal(t, 3000, p.QueueTreeGPUs("root"))
	require.Equal(t, 1, p.Usage("t").Running)
	p.Undo(mark)
	same(t, on, nil, p)
}

// A picture of a view adds to what the view has, and a changed node has another address.
func TestPicture_ofAView(t *testing.T) {
	on := newShared()
	j := &work.Job{ID: array(0).At(1), Tenant: "t", Queue: "x", Shape: work.Shape{Nodes: 1, GPUs: 2}}
	places := []work.TaskPlacement{{Node: "n1", GPUs: 3}}
	now := picture.Empty(on)
	now.Add(j, places)
	p := picture.Of(struct {
		*shared
		*picture.Picture
	}{on, now})
	node := p.Load(on.nodes[1])
	was := node.Use
	p.Remove(j, places)
	require.NotSame(t, was, node.Use)
	require.Equal(t, 2000, now.QueueTreeOfType("x", "B"))
	require.Zero(t, p.QueueTreeOfType("x", "B"))
	require.Zero(t, p.Usage("t"))
	require.Equal(t, work.NodeUse{}, p.Use("n1"))
	p.Undo(0)
	require.Same(t, was, node.Use)
	require.Equal(t, 2000, p.HeldOfType("t", "B"))
}
